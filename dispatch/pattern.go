package dispatch

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxPattern is the longest pattern that is compiled, in bytes.
const maxPattern = 4096

// pattern is a regular expression of ECMA, run by Go's engine, which takes linear time but lacks look-around and back
// references. The one look-around that schemas really use is understood: conditions at the very beginning, as in
// ^(?!\.)(?!.*\.\.)[a-z.]+$, which generators write for every e-mail address.
type pattern struct {
	text   string
	main   *regexp.Regexp
	wanted []*regexp.Regexp // all must match as well
	banned []*regexp.Regexp // none may match
}

func compilePattern(ecma string) (*pattern, error) {
	if len(ecma) > maxPattern {
		return nil, errPattern
	}
	p := &pattern{text: ecma}
	main := ecma
	var err error
	for strings.HasPrefix(main, "^(?!") || strings.HasPrefix(main, "^(?=") {
		end := groupEnd(main[1:])
		if end < 0 || splits(main) {
			return nil, errPattern
		}
		condition, err := compileECMA("^(?:" + main[len("^(?!"):end] + ")")
		if err != nil {
			return nil, err
		}
		if main[3] == '!' {
			p.banned = append(p.banned, condition)
		} else {
			p.wanted = append(p.wanted, condition)
		}
		main = "^" + main[end+1:]
	}
	p.main, err = compileECMA(main)
	return p, err
}

// patternFault says why a pattern is not used: errPattern if the engine lacks what it needs, errNoPattern if no engine
// could read it; nil if it is.
func patternFault(ecma string) error {
	_, err := compilePattern(ecma)
	var fault *syntax.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault):
		return errPattern
	}
	switch fault.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrInvalidCharRange,
		syntax.ErrMissingRepeatArgument, syntax.ErrTrailingBackslash:
		return errNoPattern
	case syntax.ErrMissingBracket:
		if !strings.Contains(ecma, "[]") && !strings.Contains(ecma, "[^]") { // ECMA's nothing and anything
			return errNoPattern
		}
	case syntax.ErrInvalidRepeatSize:
		var least, most int
		if n, _ := fmt.Sscanf(fault.Expr, "{%d,%d}", &least, &most); n == 2 && least > most {
			return errNoPattern
		}
	}
	return errPattern
}

// MatchString reports whether s contains a match.
func (p *pattern) MatchString(s string) bool {
	for _, re := range p.banned {
		if re.MatchString(s) {
			return false
		}
	}
	for _, re := range p.wanted {
		if !re.MatchString(s) {
			return false
		}
	}
	return p.main.MatchString(s)
}

// String is the pattern as the schema has it.
func (p *pattern) String() string { return p.text }

// groupEnd is the offset, in a text with one character before it, of the parenthesis that closes the group which s
// begins with; -1 if none does.
func groupEnd(s string) int {
	depth := 0
	for i, c := range significant(s) {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// splits reports whether a pattern is an alternative of several at its top level.
func splits(s string) bool {
	depth := 0
	for _, c := range significant(s) {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// significant yields the bytes of a pattern that are neither escaped nor in a character class.
func significant(s string) func(func(int, byte) bool) {
	return func(yield func(int, byte) bool) {
		class := false
		for i := 0; i < len(s); i++ {
			switch {
			case s[i] == '\\':
				i++
			case class:
				class = s[i] != ']'
			case s[i] == '[':
				class = true
			case !yield(i, s[i]):
				return
			}
		}
	}
}

func compileECMA(ecma string) (*regexp.Regexp, error) {
	if re, err := regexp.Compile(ecma); err == nil {
		return re, nil
	}
	return regexp.Compile(translate(ecma))
}

// translate rewrites the escapes that the two dialects spell differently: \uXXXX, and the escaped underscore.
func translate(ecma string) string {
	var b strings.Builder
	for i := 0; i < len(ecma); i++ {
		if ecma[i] != '\\' || i+1 == len(ecma) {
			b.WriteByte(ecma[i])
			continue
		}
		i++
		switch rest := ecma[i:]; {
		case rest[0] == 'u' && len(rest) >= 5 && isHex(rest[1:5]):
			b.WriteString(`\x{` + rest[1:5] + `}`)
			i += 4
		case rest[0] == '_':
			b.WriteByte('_')
		default:
			b.WriteString(ecma[i-1 : i+1])
		}
	}
	return b.String()
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// cost is the instructions of all programs of a pattern, which bound the time for one byte of text.
func (p *pattern) cost() int {
	n := 0
	for _, re := range append(append([]*regexp.Regexp{p.main}, p.wanted...), p.banned...) {
		parsed, err := syntax.Parse(re.String(), syntax.Perl)
		if err != nil {
			continue // cannot be: it was compiled
		}
		if program, err := syntax.Compile(parsed.Simplify()); err == nil {
			n += len(program.Inst)
		}
	}
	return n
}

// meteredPattern charges each match to the steps of the validation that runs it.
type meteredPattern struct {
	*pattern
	cost  int
	steps *steps
}

var _ jsonschema.Regexp = (*meteredPattern)(nil)

// newMeteredPattern is the library's engine for one compiled schema.
func newMeteredPattern(ecma string, s *steps) (jsonschema.Regexp, error) {
	p, err := compilePattern(ecma)
	if err != nil {
		return nil, err
	}
	return &meteredPattern{p, p.cost(), s}, nil
}

// MatchString reports whether s contains a match.
func (p *meteredPattern) MatchString(s string) bool {
	p.steps.match(100 + p.cost*len(s))
	return p.pattern.MatchString(s)
}
