package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Switch is a setting that is on, off or left to the service. Auto and on mean the same today.
type Switch string

// The positions of a [Switch].
const (
	Auto Switch = "auto"
	On   Switch = "on"
	Off  Switch = "off"
)

// The bounds of the numbers of a [Config].
const (
	maxThresholdPct    = 100
	maxSearchLimit     = 50
	minListingTokens   = 200
	maxListingTokens   = 60000
	unknownContextLeg  = 10000 // tokens; stands for the share of a context whose length is not known
	maxWarnedValueRune = 80
)

// Config is the tool_search configuration, as in
//
//	tools:
//	  tool_search:
//	    enabled: auto
//	    threshold_pct: 5
//	    search_default_limit: 5
//	    max_search_limit: 25
//	    listing: auto
//	    listing_max_tokens: 4000
//	    defer: [computer_use, session_search]
//
// Start from [DefaultConfig]; the zero value is not valid.
type Config struct {
	// Enabled off keeps every tool eager and adds no bridge.
	Enabled Switch `json:"enabled"`
	// ThresholdPct, 0 to 100, is the listing's share of the model's context.
	ThresholdPct float64 `json:"threshold_pct"`
	// SearchDefaultLimit, 1 to MaxSearchLimit, is how many hits a query gets that names no limit.
	SearchDefaultLimit int `json:"search_default_limit"`
	// MaxSearchLimit, 1 to 50, is the most hits that a query may ask for.
	MaxSearchLimit int `json:"max_search_limit"`
	// Listing on forces the full listing whatever the budget, off forces none, auto fits it into the budget.
	Listing Switch `json:"listing"`
	// ListingMaxTokens, 200 to 60000, caps the listing whatever the context's length.
	ListingMaxTokens int `json:"listing_max_tokens"`
	// Defer names the tools that go behind the bridge besides those that do so by class. Nil is a curated list of
	// built-in tools that are seldom needed. An empty list keeps every tool eager, whatever its class.
	Defer []string `json:"defer"`
}

// DefaultConfig is the configuration where nobody states one.
func DefaultConfig() Config {
	return Config{
		Enabled: Auto, ThresholdPct: 5, SearchDefaultLimit: 5, MaxSearchLimit: 25,
		Listing: Auto, ListingMaxTokens: 4000,
	}
}

// validate names the first field that is out of its bounds.
func (c Config) validate() error {
	position := func(s Switch) bool { return s == Auto || s == On || s == Off }
	switch {
	case !position(c.Enabled):
		return fmt.Errorf("enabled %q", c.Enabled)
	case !position(c.Listing):
		return fmt.Errorf("listing %q", c.Listing)
	case !(c.ThresholdPct >= 0 && c.ThresholdPct <= maxThresholdPct):
		return fmt.Errorf("threshold_pct %v", c.ThresholdPct)
	case c.MaxSearchLimit < 1 || c.MaxSearchLimit > maxSearchLimit:
		return fmt.Errorf("max_search_limit %d", c.MaxSearchLimit)
	case c.SearchDefaultLimit < 1 || c.SearchDefaultLimit > c.MaxSearchLimit:
		return fmt.Errorf("search_default_limit %d", c.SearchDefaultLimit)
	case c.ListingMaxTokens < minListingTokens || c.ListingMaxTokens > maxListingTokens:
		return fmt.Errorf("listing_max_tokens %d", c.ListingMaxTokens)
	}
	return nil
}

// Warning tells of a value that could not be used. It never stops anything: Used says what stands in its place.
type Warning struct {
	Key   string // dotted, for example tool_search.max_search_limit
	Value string // the value as written, cut to 80 characters
	Used  string // what is used instead
}

// Error is the whole warning in one sentence, so that a Warning can also be passed on as an error.
func (w Warning) Error() string {
	return fmt.Sprintf("%s: cannot use %s; using %s instead", w.Key, w.Value, w.Used)
}

// Overlay lays the raw value of tool_search over c, field by field, and tells what it could not use. What is absent
// or null leaves c as it is. A boolean stands for {"enabled": "auto"} or {"enabled": "off"}, and the string "off"
// switches off as well. A value of the wrong type leaves c's own; a number out of bounds becomes the nearest bound.
// The result never shares a slice with raw.
func (c Config) Overlay(raw json.RawMessage) (Config, []Warning) {
	var o overlay
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return c, nil
	case raw[0] == '{':
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			o.warn("", raw, "the configuration as it was")
			return c, o.warnings
		}
		return o.object(c, fields), o.warnings
	}
	return o.scalar(c, raw), o.warnings
}

// overlay collects the warnings of one [Config.Overlay].
type overlay struct{ warnings []Warning }

func (o *overlay) warn(key string, raw json.RawMessage, used string) {
	full := "tool_search"
	if key != "" {
		full += "." + key
	}
	value := string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	o.warnings = append(o.warnings, Warning{Key: full, Value: clip(value, maxWarnedValueRune), Used: used})
}

// scalar reads a tool_search that is no object.
func (o *overlay) scalar(c Config, raw json.RawMessage) Config {
	switch word := switchWord(raw); {
	case string(raw) == "true":
		c.Enabled = Auto
	case string(raw) == "false", raw[0] == '"' && word == "off":
		c.Enabled = Off
	case raw[0] == '"' && (word == "auto" || word == "on"):
		c.Enabled = Auto
	default:
		o.warn("", raw, "enabled: "+string(c.Enabled))
	}
	return c
}

func (o *overlay) object(c Config, fields map[string]json.RawMessage) Config {
	c.Enabled = o.flip(c.Enabled, "enabled", fields["enabled"])
	c.ThresholdPct = o.percent(c.ThresholdPct, fields["threshold_pct"])
	c.MaxSearchLimit = o.number(c.MaxSearchLimit, "max_search_limit", fields["max_search_limit"], 1, maxSearchLimit)
	c.SearchDefaultLimit = o.number(c.SearchDefaultLimit, "search_default_limit", fields["search_default_limit"], 1, c.MaxSearchLimit)
	c.Listing = o.flip(c.Listing, "listing", fields["listing"])
	c.ListingMaxTokens = o.number(c.ListingMaxTokens, "listing_max_tokens", fields["listing_max_tokens"], minListingTokens, maxListingTokens)
	c.Defer = o.names(c.Defer, fields["defer"])
	return c
}

// flip reads a switch.
func (o *overlay) flip(was Switch, key string, raw json.RawMessage) Switch {
	if absent(raw) {
		return was
	}
	switch switchWord(raw) {
	case "true", "1", "yes", "on":
		return On
	case "false", "0", "no", "off":
		return Off
	case "auto":
		return Auto
	}
	o.warn(key, raw, string(was))
	return was
}

// percent reads threshold_pct. What is no number at all by IEEE 754 counts as the upper bound.
func (o *overlay) percent(was float64, raw json.RawMessage) float64 {
	if absent(raw) {
		return was
	}
	f, ok := readFloat(raw)
	used := was
	if ok {
		used = f
		if math.IsNaN(f) || f > maxThresholdPct {
			used = maxThresholdPct
		} else if f < 0 {
			used = 0
		}
	}
	if !ok || used != f {
		o.warn("threshold_pct", raw, strconv.FormatFloat(used, 'g', -1, 64))
	}
	return used
}

// number reads a whole number and holds it between lo and hi. The value that was there is held as well, silently:
// nobody wrote it here.
func (o *overlay) number(was int, key string, raw json.RawMessage, lo, hi int) int {
	was = min(max(was, lo), hi)
	if absent(raw) {
		return was
	}
	n, ok := readInt(raw)
	used := was
	if ok {
		used = min(max(n, lo), hi)
	}
	if !ok || used != n {
		o.warn(key, raw, strconv.Itoa(used))
	}
	return used
}

// names reads the defer list: the text of each item, trimmed; blanks and nulls are dropped, repeats too.
func (o *overlay) names(was []string, raw json.RawMessage) []string {
	if absent(raw) {
		return was
	}
	var items []json.RawMessage
	if raw = bytes.TrimSpace(raw); raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		used := "the curated list"
		if was != nil {
			used = fmt.Sprintf("the list of %d names that was there", len(was))
		}
		o.warn("defer", raw, used+" (a list of tool names was expected)")
		return was
	}
	names := make([]string, 0, len(items))
	for _, item := range items {
		if string(item) == "null" {
			continue
		}
		if name := strings.TrimSpace(itemForm(item)); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); was != nil && slices.Equal(names, was) {
		return was // one list for all who use it
	}
	return names
}

// Budget is the listing's budget in tokens: the smaller of ListingMaxTokens and ThresholdPct of the context. A nil,
// zero or negative contextLength is an unknown context, whose share counts as 10000 tokens.
func (c Config) Budget(contextLength *int64) int {
	leg := unknownContextLeg
	if contextLength != nil && *contextLength > 0 {
		leg = c.contextShare(*contextLength)
	}
	return max(0, min(c.ListingMaxTokens, leg))
}

// contextShare is ThresholdPct of a known context, in whole tokens.
func (c Config) contextShare(contextLength int64) int {
	share := float64(contextLength) * (c.ThresholdPct / 100)
	if !(share < math.MaxInt32) { // so that no conversion overflows; far above every cap
		return math.MaxInt32
	}
	return int(share)
}

// ConnectorsEnabled reads the raw value of the configuration key connectors: a boolean, or an object whose "enabled"
// says it. Connectors are off only where something says so: false, zero, or one of the words false, 0, no, off and
// the empty string. Whatever else stands there leaves them on.
func ConnectorsEnabled(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '{' {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return true
		}
		return enabledValue(fields["enabled"])
	}
	return string(raw) != "false"
}

func enabledValue(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return true
	}
	switch raw[0] {
	case '"':
		switch switchWord(raw) {
		case "false", "0", "no", "off", "":
			return false
		}
		return true
	case 'f':
		return false
	case 't', 'n', '{', '[':
		return true
	}
	f, ok := readFloat(raw)
	return !ok || f != 0
}

func absent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// switchWord is a value's text, trimmed and in lower case.
func switchWord(raw json.RawMessage) string {
	return strings.ToLower(strings.TrimSpace(valueText(raw)))
}

// valueText is the text of any JSON value: a string's content, otherwise the JSON as written without blanks between
// its parts.
func valueText(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 1 && raw[0] == '"' {
		if inner := raw[1 : len(raw)-1]; !bytes.ContainsAny(inner, "\"\\") && utf8.Valid(inner) {
			return string(inner)
		}
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// clip cuts s to n characters and marks the cut with an ellipsis.
func clip(s string, n int) string {
	if cut := cutRunes(s, n); len(cut) < len(s) {
		return cut + "…"
	}
	return s
}

// cutRunes is the first n characters of s.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// runeLen is the length of s in characters.
func runeLen(s string) int { return utf8.RuneCountInString(s) }
