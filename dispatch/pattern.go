package dispatch

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxPattern is the longest pattern that is compiled, in bytes.
const maxPattern = 4096

// compilePattern reads a pattern of a schema, a regular expression of ECMA, with Go's engine, which runs in linear
// time but lacks look-around and back references.
func compilePattern(ecma string) (*regexp.Regexp, error) {
	if len(ecma) > maxPattern {
		return nil, errPattern
	}
	if re, err := regexp.Compile(ecma); err == nil {
		return re, nil
	}
	return regexp.Compile(translate(ecma))
}

func usablePattern(ecma string) bool {
	_, err := compilePattern(ecma)
	return err == nil
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

// meteredPattern charges each match to the steps of the validation that runs it.
type meteredPattern struct {
	*regexp.Regexp
	cost  int // of 100 bytes of text
	steps *steps
}

var _ jsonschema.Regexp = (*meteredPattern)(nil)

// newMeteredPattern is the library's engine for one compiled schema.
func newMeteredPattern(ecma string, s *steps) (jsonschema.Regexp, error) {
	re, err := compilePattern(ecma)
	if err != nil {
		return nil, err
	}
	cost := len(ecma)
	if parsed, err := syntax.Parse(re.String(), syntax.Perl); err == nil {
		if program, err := syntax.Compile(parsed.Simplify()); err == nil {
			cost = len(program.Inst)
		}
	}
	return &meteredPattern{re, cost, s}, nil
}

// MatchString reports whether s contains a match.
func (p *meteredPattern) MatchString(s string) bool {
	p.steps.take(1 + p.cost*len(s)/100)
	return p.Regexp.MatchString(s)
}
