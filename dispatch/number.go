package dispatch

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// maxNumberText is the longest text that is read as a number, in bytes. The largest float has 309 digits.
const maxNumberText = 1000

// readNumber reads the text of a number as a person writes one: blanks around it, a sign, leading zeros, underscores
// between digits, digits of any script, an exponent. It returns the number's JSON spelling with every digit kept, and
// whether it is a whole number, which is spelled without point and exponent. What a float cannot hold (infinite, not a
// number, so small that it would become 0) is no number.
func readNumber(text string) (spelling string, whole, ok bool) {
	if len(text) > maxNumberText {
		return "", false, false
	}
	n, ok := splitNumber(strings.TrimSpace(text))
	if !ok {
		return "", false, false
	}
	f, _ := strconv.ParseFloat(n.json(), 64)
	digits := strings.TrimLeft(n.integer+n.fraction, "0")
	if math.IsInf(f, 0) || f == 0 && digits != "" {
		return "", false, false
	}
	if digits == "" {
		return "0", true, true
	}
	significant := strings.TrimRight(digits, "0")
	scale := n.exponent - len(n.fraction) + len(digits) - len(significant)
	if scale < 0 {
		return n.json(), false, true
	}
	return n.sign + significant + strings.Repeat("0", scale), true, true
}

// decimal is a number taken apart: sign is "-" or "", the rest ASCII digits.
type decimal struct {
	sign, integer, fraction string
	exponent                int // saturates at a million either way
}

// json spells the number as JSON wants it.
func (d decimal) json() string {
	s := strings.TrimLeft(d.integer, "0")
	if s == "" {
		s = "0"
	}
	s = d.sign + s
	if d.fraction != "" {
		s += "." + d.fraction
	}
	if d.exponent != 0 {
		s += "e" + strconv.Itoa(d.exponent)
	}
	return s
}

func splitNumber(s string) (d decimal, ok bool) {
	s = asciiDigits(s)
	switch {
	case strings.HasPrefix(s, "-"):
		d.sign, s = "-", s[1:]
	case strings.HasPrefix(s, "+"):
		s = s[1:]
	}
	mantissa, exponent, hasExponent := s, "", false
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent, hasExponent = s[:i], s[i+1:], true
	}
	integer, fraction, _ := strings.Cut(mantissa, ".")
	if integer == "" && fraction == "" {
		return d, false
	}
	for _, part := range []struct {
		from string
		to   *string
	}{{integer, &d.integer}, {fraction, &d.fraction}} {
		if *part.to, ok = plainDigits(part.from); !ok && part.from != "" {
			return d, false
		}
	}
	if hasExponent {
		if d.exponent, ok = readExponent(exponent); !ok {
			return d, false
		}
	}
	return d, true
}

// plainDigits drops single underscores between digits; anything else but digits fails, and so does "".
func plainDigits(s string) (string, bool) {
	if s == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return "", false
	}
	s = strings.ReplaceAll(s, "_", "")
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return "", false
		}
	}
	return s, true
}

func readExponent(s string) (int, bool) {
	const most = 1_000_000
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	s, ok := plainDigits(s)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > most {
		n = most
	}
	if negative {
		n = -n
	}
	return n, true
}

// asciiDigits turns the decimal digits of every script into those of ASCII.
func asciiDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 || !unicode.IsDigit(r) {
			return r
		}
		for _, run := range unicode.Nd.R16 {
			if rune(run.Lo) <= r && r <= rune(run.Hi) {
				return '0' + (r-rune(run.Lo))%10
			}
		}
		for _, run := range unicode.Nd.R32 {
			if rune(run.Lo) <= r && r <= rune(run.Hi) {
				return '0' + (r-rune(run.Lo))%10
			}
		}
		return r
	}, s)
}

// maxMagnitude bounds the decimal exponent and the significant digits of a number that is validated.
const maxMagnitude = 400

// sameNumber compares two JSON numbers by value.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := new(big.Rat).SetString(comparableNumber(a))
	y, okY := new(big.Rat).SetString(comparableNumber(b))
	return okX && okY && x.Cmp(y) == 0
}

// comparableNumber spells a JSON number so that exact arithmetic on it is cheap. Numbers of up to [maxMagnitude] digits and
// exponents of that size, which is more than any float holds, are returned as they are. Beyond, 1e999999 would cost
// milliseconds at every comparison and 1e9999999 crash it: such a number is validated as the nearest one in bounds,
// and sent as it was written.
func comparableNumber(spelling string) string {
	if len(spelling) <= maxMagnitude && !strings.ContainsAny(spelling, "eE") {
		return spelling
	}
	d, ok := splitNumber(spelling)
	if !ok {
		return "0" // cannot be: the text was valid
	}
	digits := strings.TrimLeft(d.integer+d.fraction, "0")
	if digits == "" {
		return "0"
	}
	point := len(digits) - len(d.fraction) + d.exponent // 0.digits × 10^point
	switch {
	case point > maxMagnitude:
		return d.sign + "1e" + strconv.Itoa(maxMagnitude)
	case point < -maxMagnitude:
		return d.sign + "1e-" + strconv.Itoa(maxMagnitude)
	case len(spelling) <= maxMagnitude:
		return spelling
	}
	return d.sign + "0." + digits[:min(len(digits), maxMagnitude)] + "e" + strconv.Itoa(point)
}
