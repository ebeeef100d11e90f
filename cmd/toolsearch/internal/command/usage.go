package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"toolsearch/catalog"
)

// usageError is a mistake on the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (e usageError) Unwrap() error { return e.error }

// takes refuses any other count of arguments than least to most, and says what the verb takes instead.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%s takes %s; it was given %s", cmd.Name(), what, plural(len(args), "argument"))
		}
		return nil
	}
}

// noArgs refuses every argument of a verb that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument; it was given %q", cmd.Name(), args[0])
	}
	return nil
}

// misspelt finds the word of a command line that should be a verb and is none, before its flags are read: they are
// those of the verb that was meant. It gives the command that the word stands behind.
func misspelt(root *cobra.Command, args []string) (*cobra.Command, error) {
	if len(args) > 0 && strings.HasPrefix(args[0], "__complete") {
		return root, nil // a shell asks, and the words need not be whole
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return root, usageError{err}
	}
	if cmd.Name() == "help" && cmd.Parent() == root {
		return misspelt(root, rest)
	}
	word := firstWord(cmd, rest)
	if !cmd.HasSubCommands() || word == "" {
		return cmd, nil
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	return cmd, usagef("unknown command %q for %q%s", word, cmd.CommandPath(), didYouMean(word, "", verbs))
}

// firstWord is the first argument that is neither a flag nor the value of one, as the library itself tells them apart.
func firstWord(cmd *cobra.Command, args []string) string {
	for i := 0; i < len(args); i++ {
		switch s := args[i]; {
		case s == "--":
			return ""
		case !strings.HasPrefix(s, "-") || s == "-":
			return s
		case takesValue(cmd, s):
			i++
		}
	}
	return ""
}

func takesValue(cmd *cobra.Command, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	if strings.Contains(arg, "=") || !long && len(arg) > 2 {
		return false
	}
	cmd.InitDefaultHelpFlag()
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		flag = cmd.InheritedFlags().Lookup(name)
	}
	if !long {
		flag = cmd.Flags().ShorthandLookup(arg[1:])
	}
	return flag == nil || flag.NoOptDefVal == ""
}

// didYouMean names the nearest of some names, behind what is written before each; empty where none is near.
func didYouMean(word, before string, names []string) string {
	near, most := []string{}, 2
	for _, name := range names {
		slips := catalog.SlipsBetween([]rune(word), []rune(name), most)
		if len(word) > 2 && strings.HasPrefix(name, word) {
			slips = 0 // cut off
		}
		switch {
		case slips > most || slips >= len(word):
		case slips < most:
			near, most = []string{before + name}, slips
		default:
			near = append(near, before+name)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// flagError words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return usagef("%s%s", unknown, instead(cmd, unknown))
	case errors.As(err, &value):
		return usagef("--%s is %q; it must be %s", value.GetFlag().Name, value.GetValue(), wanted(value))
	default:
		return usageError{err}
	}
}

// instead says what may have been meant by a flag that there is not.
func instead(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	name := unknown.GetSpecifiedName()
	switch {
	case cmd.HasSubCommands():
		return fmt.Sprintf("; write the flags of a command behind it: %s <command> ...", cmd.CommandPath())
	case unknown.GetSpecifiedShortnames() != "":
		return "; but for -h, flags are written with two dashes"
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return didYouMean(name, "--", names)
}

// wanted says what a flag takes.
func wanted(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "int", "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "duration":
		return "a duration such as 30s or 5m"
	case "bool":
		return "true or false"
	default:
		return "a " + e.GetFlag().Value.Type() + ": " + e.Unwrap().Error()
	}
}
