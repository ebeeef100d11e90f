// Package command is the command line: the verbs of the one binary, their flags, what they print and how they exit.
//
// It holds no logic of the product. A verb reads its flags, asks a worker over the bus (or starts one) and prints.
//
//	func main() { os.Exit(command.Main(command.System(), os.Args[1:])) }
//
// # Exit codes
//
//	0  found, done
//	1  nothing found, or a call that did not succeed
//	2  the command line, the configuration or a file is wrong; nothing was sent
//	3  the service said no, there is none, or what is needed is out of reach or taken (a port, say)
//	130  ended by a second signal, or by one where there is nothing to finish
//
// The rule between 2 and 3: after 2 the same command fails again until it, the configuration or a file is changed; after 3
// it may succeed. A setting with a value that is not understood ends nothing: it is told and replaced. Only the
// address of the bus is never replaced.
//
// # Output
//
// Standard output has the answer and nothing else: a table for people, or with --json exactly the bytes of the reply.
// Warnings, progress and errors go to standard error.
//
// Invariants: a run without a worker or a server ends with exit code 3 within the timeout and says what to start;
// no secret of the configuration is printed; the first SIGINT or SIGTERM lets what has begun finish, a second one
// ends the process at once.
package command
