package dispatch

import (
	"math/big"
	"strings"
	"testing"
)

func TestReadNumber(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, want string
		whole      bool
	}{
		{"42", "42", true}, {" -7 ", "-7", true}, {"+5", "5", true}, {"007", "7", true}, {"-0", "0", true},
		{"5.0", "5", true}, {"1e3", "1000", true}, {"1.5e1", "15", true}, {"150e-1", "15", true}, {"3.", "3", true},
		{"1_000", "1000", true}, {"0e99999999999999999999", "0", true}, {"٤٢", "42", true}, {"\u00a0९\u00a0", "9", true}, {"𝟗", "9", true},
		{"99999999999999999999", "99999999999999999999", true}, {"9007199254740993", "9007199254740993", true},
		{"12345678901234567890.000", "12345678901234567890", true},
		{"1e300", "1" + strings.Repeat("0", 300), true},
		{"3.14", "3.14", false}, {".5", "0.5", false}, {"-0.25", "-0.25", false}, {"00.50", "0.50", false},
		{"1e-7", "1e-7", false}, {"12345678901234567890.5", "12345678901234567890.5", false}, {"15E-1", "15e-1", false},
	} {
		got, whole, ok := readNumber(tc.text)
		if !ok || got != tc.want || whole != tc.whole {
			t.Errorf("readNumber(%q) = %q, %v, %v; want %q, %v", tc.text, got, whole, ok, tc.want, tc.whole)
		}
	}
	for _, text := range []string{
		"", " ", ".", "+", "-", "e5", "1e", "0x10", "1__0", "_1", "1_", "1_.5", "1._5", "nan", "inf", "-Infinity", "1e400", "-1e999999999999",
		"1e-400", "1 2", "12a", "--1", "1.2.3", "1e5.5", strings.Repeat("9", 2000), "½", "²",
	} {
		if got, _, ok := readNumber(text); ok {
			t.Errorf("readNumber(%q) = %q, want none", text, got)
		}
	}
}

func TestComparableNumber(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("123456789", 60)
	for _, tc := range []struct{ spelling, want string }{
		{"5", "5"}, {"1e3", "1e3"}, {"-2.5E-7", "-2.5E-7"},
		{"1e999999", "1e400"}, {"-1e99999999999", "-1e400"}, {"1e-999999", "1e-400"}, {"0e999999", "0"}, {"-0.000e999999", "0"},
		{"12e400", "1e400"}, {"0.001e402", "0.001e402"},
		{"-" + long, "-1e400"}, // it has more digits than the bound
		{"0." + strings.Repeat("0", 100) + long, "0." + long[:400] + "e-100"},
	} {
		if got := comparableNumber(tc.spelling); got != tc.want {
			t.Errorf("comparableNumber(%.40s) = %.40s, want %.40s", tc.spelling, got, tc.want)
		}
		if _, ok := new(big.Rat).SetString(comparableNumber(tc.spelling)); !ok {
			t.Errorf("%.40s is no number", tc.want)
		}
	}
}
