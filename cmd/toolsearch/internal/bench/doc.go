// Package bench measures search over the bus beside a bare NATS echo of the same sizes, in the same run.
//
// It is not a test and judges nothing: it gives figures and their ratios, so that they mean something on a machine
// that other work shares. Search and echo take turns, request by request with one in flight and slice by slice with
// many, so that noise hits both. Worker, echo and client have a connection each over TCP, in one process.
//
//	result, err := bench.Run(ctx, bench.Options{Tools: sample.JSON(sample.Sized(1000))})
//	fmt.Println(result.P50Ratio, result.RateRatio)
//
// # The figures
//
// p50_ratio is search's p50 over echo's, one request in flight. rate_ratio is search's rate with many in flight over
// what is possible, 1/(1/echo_rate + search_cpu/cores): the time on the bus and the search's own CPU, which is
// measured in this process without the bus. assemble_ratio is the p50 of an assemble that names a stored catalog over
// that of an echo of equal size.
//
// Invariants: all queries are different and no answer is cached; for each search there is an echo with a request and
// a reply of the same number of bytes; every reply is checked to be one.
package bench
