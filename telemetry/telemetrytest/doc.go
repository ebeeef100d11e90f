// Package telemetrytest is what tests of telemetry share: spans kept in memory and drawn as a tree of text, and a
// receiver that speaks OTLP over gRPC and HTTP as a collector does.
//
//	spans := telemetrytest.NewSpans()
//	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: spans.Provider()})
//	... drive, and end what records ...
//	if open := spans.Open(); len(open) > 0 { t.Errorf("never ended: %v", open) }
//	compare(spans.Tree(), golden)
//
// A tree holds names, kinds, attributes, events, status and links, and no ids and no times, so equal work gives equal
// text. What differs from run to run is masked by the attribute's key. Siblings are in the order of their text.
//
// It is for tests: nothing else imports it.
package telemetrytest
