package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration as people write it: "30s", "1m30s", "250ms", and "0" alone. A bare number has no
// unit and is refused, as is anything negative.
func ParseDuration(v any) (time.Duration, error) {
	s := strings.TrimSpace(fmt.Sprint(v))
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("a duration such as 30s or 1m30s")
	}
	return d, nil
}

// units are the byte units, the longest spelling first so that "mib" is not read as "b".
var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
}

// ParseSize reads a number of bytes: "256MiB", "1.5 GB", "4096".
func ParseSize(v any) (int64, error) {
	want := fmt.Errorf("a size such as 256MiB, 1GB or 4096")
	s, unit := strings.ToLower(strings.TrimSpace(fmt.Sprint(v))), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || math.IsNaN(f) || f*unit > math.MaxInt64/2 {
		return 0, want
	}
	return int64(f * unit), nil
}

// FormatSize writes a number of bytes in the largest binary unit that keeps it whole: 268435456 is "256MiB".
func FormatSize(n int64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n != 0 && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// parseInt reads a whole number, in whichever type the source had it.
func parseInt(v any) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(fmt.Sprint(v)))
	if err != nil {
		return 0, fmt.Errorf("a whole number")
	}
	return n, nil
}

// parseBool reads true/false, yes/no, on/off, 1/0, in any case.
func parseBool(v any) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("true or false")
}

// parseText reads a scalar as its text.
func parseText(v any) (string, error) {
	switch v := v.(type) {
	case nil, map[string]any, []any:
		return "", fmt.Errorf("a text")
	default:
		return strings.TrimSpace(fmt.Sprint(v)), nil
	}
}

// parseNames reads a list of names: a YAML list, or a text with commas between them. Blanks are dropped.
func parseNames(v any) ([]string, error) {
	names := []string{}
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			names = append(names, s)
		}
	}
	switch v := v.(type) {
	case string:
		for s := range strings.SplitSeq(v, ",") {
			add(s)
		}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("a list of names")
			}
			add(s)
		}
	default:
		return nil, fmt.Errorf("a list of names")
	}
	return names, nil
}
