// Package screen is the place where a command prints for people: how wide it is, and whether it shows colours.
//
// It is not a layout engine and never moves the cursor: what is printed can be piped, logged and read again. Colours
// appear only on a terminal, and not where NO_COLOR is set or the terminal says that it is dumb.
//
//	out := screen.New(os.Stdout, os.Environ)
//	out.Println(out.Bold("3 tools"), "instead of", 1040)
//
// Invariant: on anything but a terminal the bytes are exactly the text.
package screen
