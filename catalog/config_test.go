package catalog

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"toolsearch/catalog/catalogtest"
)

func TestConfigVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "config.jsonl", "config", func(t *testing.T, v catalogtest.Vector) {
		var given struct{ Config json.RawMessage }
		v.DecodeGiven(t, &given)
		var want struct {
			Enabled            Switch
			ThresholdPct       float64  `json:"threshold_pct"`
			SearchDefaultLimit int      `json:"search_default_limit"`
			MaxSearchLimit     int      `json:"max_search_limit"`
			Listing            Switch   `json:"listing"`
			ListingMaxTokens   int      `json:"listing_max_tokens"`
			DeferTools         []string `json:"defer_tools"`
		}
		v.DecodeWant(t, &want)
		got, _ := DefaultConfig().Overlay(given.Config)
		requireEqual(t, "config", Config{
			Enabled: want.Enabled, ThresholdPct: want.ThresholdPct, SearchDefaultLimit: want.SearchDefaultLimit,
			MaxSearchLimit: want.MaxSearchLimit, Listing: want.Listing, ListingMaxTokens: want.ListingMaxTokens,
			Defer: want.DeferTools,
		}, got)
		if err := got.validate(); err != nil {
			t.Errorf("the result is not valid: %v", err)
		}
	})
}

func TestConnectorsConfigVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "config.jsonl", "connectors_config", func(t *testing.T, v catalogtest.Vector) {
		var given struct{ Config json.RawMessage }
		var want struct{ Enabled bool }
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		requireEqual(t, "enabled", want.Enabled, ConnectorsEnabled(given.Config))
	})
}

func TestBudgetVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, "budget.jsonl", "budget", func(t *testing.T, v catalogtest.Vector) {
		var given struct {
			Config        json.RawMessage
			ContextLength *int64 `json:"context_length"`
		}
		var want struct{ Budget int }
		v.DecodeGiven(t, &given)
		v.DecodeWant(t, &want)
		c, _ := DefaultConfig().Overlay(given.Config)
		requireEqual(t, "budget", want.Budget, c.Budget(given.ContextLength))
	})
}

func TestBudgetOfHugeContext(t *testing.T) {
	t.Parallel()
	context := int64(math.MaxInt64)
	c, _ := DefaultConfig().Overlay(json.RawMessage(`{"threshold_pct":100,"listing_max_tokens":60000}`))
	requireEqual(t, "budget", 60000, c.Budget(&context))
}

// TestOverlayKeepsBase lays requests over a configuration that is not the default one.
func TestOverlayKeepsBase(t *testing.T) {
	t.Parallel()
	base, warnings := DefaultConfig().Overlay(json.RawMessage(
		`{"enabled":"off","threshold_pct":7,"search_default_limit":9,"max_search_limit":40,"listing":"on","listing_max_tokens":900,"defer":["a"]}`))
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	changed := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	for _, c := range []struct {
		name, raw string
		want      Config
		warned    int
	}{
		{"absent", ``, base, 0},
		{"null", `null`, base, 0},
		{"empty", `{}`, base, 0},
		{"nulls", `{"enabled":null,"threshold_pct":null,"defer":null,"max_search_limit":null}`, base, 0},
		{"unknown key", `{"enbled":true}`, base, 0},
		{"true", `true`, changed(func(c *Config) { c.Enabled = Auto }), 0},
		{"word on", `"on"`, changed(func(c *Config) { c.Enabled = Auto }), 0},
		{"number", `7`, base, 1},
		{"wrong types", `{"enabled":[],"threshold_pct":{},"max_search_limit":"x","search_default_limit":"3.5","listing":8,"listing_max_tokens":[],"defer":"a"}`, base, 7},
		{"one field", `{"listing":"auto"}`, changed(func(c *Config) { c.Listing = Auto }), 0},
		{"lower maximum", `{"max_search_limit":3}`, changed(func(c *Config) { c.MaxSearchLimit, c.SearchDefaultLimit = 3, 3 }), 0},
		{"default over maximum", `{"search_default_limit":41}`, changed(func(c *Config) { c.SearchDefaultLimit = 40 }), 1},
		{"defer of mixed values", `{"defer":[true,2,"x",false,null,2.5]}`,
			changed(func(c *Config) { c.Defer = []string{"2", "2.5", "False", "True", "x"} }), 0},
		{"empty defer", `{"defer":[]}`, changed(func(c *Config) { c.Defer = []string{} }), 0},
		{"not a number", `{"threshold_pct":"nan"}`, changed(func(c *Config) { c.ThresholdPct = 100 }), 1},
		{"infinite limit", `{"max_search_limit":1e999}`, base, 1},
		{"huge limit", `{"max_search_limit":99999999999999999999999}`, changed(func(c *Config) { c.MaxSearchLimit = 50 }), 1},
		{"digits apart", `{"listing_max_tokens":" 1_000 "}`, changed(func(c *Config) { c.ListingMaxTokens = 1000 }), 0},
		{"hexadecimal", `{"threshold_pct":"0x10"}`, base, 1},
		{"not JSON", `{"enabled":`, base, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, warnings := base.Overlay(json.RawMessage(c.raw))
			requireEqual(t, "config", c.want, got)
			if len(warnings) != c.warned {
				t.Errorf("%d warnings, want %d: %v", len(warnings), c.warned, warnings)
			}
		})
	}
}

func TestWarningNamesAll(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{
		`{"defer":"todo_list"}`:       {"tool_search.defer", `"todo_list"`, "curated list", "list of tool names"},
		`{"enabled":"maybe"}`:         {"tool_search.enabled", `"maybe"`, "auto"},
		`{"max_search_limit":900}`:    {"tool_search.max_search_limit", "900", "50"},
		`{"threshold_pct":"x"}`:       {"tool_search.threshold_pct", `"x"`, "5"},
		`[1]`:                         {"tool_search", "[1]", "auto"},
		`{"listing_max_tokens":true}`: {"tool_search.listing_max_tokens", "true", "200"},
	} {
		_, warnings := DefaultConfig().Overlay(json.RawMessage(raw))
		if len(warnings) != 1 {
			t.Errorf("%s: %v", raw, warnings)
			continue
		}
		for _, w := range want {
			if text := warnings[0].Error(); !strings.Contains(text, w) {
				t.Errorf("%s: %q does not name %q", raw, text, w)
			}
		}
	}
	_, warnings := DefaultConfig().Overlay(json.RawMessage(`{"defer":"` + strings.Repeat("x", 1<<20) + `"}`))
	if n := len(warnings[0].Error()); n > 300 {
		t.Errorf("a warning of %d bytes", n)
	}
}
