package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/subjects"
)

// TestSearchStreakAcrossWorkers has a model that searches without end, answered by workers of which none remembers it.
func TestSearchStreakAcrossWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{SearchStreak: 3})
	b.worker(Options{SearchStreak: 3})
	client, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	session := client.Session("acme", "s1")
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	scope := subjects.Handle(b.callScope())
	search := func(query string) string {
		t.Helper()
		found, err := session.Search(ctx, scope, subjects.ModelArguments(`{"queries":["`+query+`"]}`))
		if err != nil || found.Mistake != nil {
			t.Fatal(err, found)
		}
		return found.Results[0].Hint
	}
	describe := func() {
		t.Helper()
		if _, err := session.Describe(ctx, scope, subjects.ModelArguments(`{"names":["mcp__desk__note"]}`)); err != nil {
			t.Fatal(err)
		}
	}
	call := func() {
		t.Helper()
		if _, err := session.Call(ctx, subjects.CallRequest{Scope: scope, Arguments: json.RawMessage(
			`{"calls":[{"name":"mcp__shop__order","arguments":{"count":1}}]}`)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, reset := range map[string]func(){"describe": describe, "call": call} {
		for i, want := range []struct{ query, hint string }{
			{"order thing", ""}, {"write note", ""}, {"Orders, things", "searched before"}, {"order", "4 searches in a row"},
		} {
			hint := search(want.query)
			if (hint == "") != (want.hint == "") || !strings.Contains(hint, want.hint) {
				t.Errorf("before a %s, search %d: %q, want %q", name, i+1, hint, want.hint)
			}
		}
		if _, err := session.Search(ctx, scope, subjects.ModelArguments(`{"queries":[]}`)); err != nil {
			t.Fatal(err)
		}
		if hint := search("note"); !strings.Contains(hint, "5 searches in a row") {
			t.Errorf("a mistake ended the streak: %q", hint)
		}
		reset()
	}
}

func TestSearchStreakOnTheWire(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{SearchStreak: -1})
	scope := b.callScope()
	body := func(streak string) string {
		return `{"scope":"` + scope + `","arguments":{"queries":["order"]},"search_streak":` + streak + `}`
	}
	first := b.ask(subjects.VerbSearch, search(scope, "order"))
	text := first.Header.Get(subjects.HeaderSearchStreak)
	if s, err := subjects.ParseSearchStreak(text); err != nil || s.Searches != 1 || len(s.Queries) != 1 {
		t.Fatalf("the header says %q: %v", text, err)
	}
	again := b.ask(subjects.VerbSearch, body(`"`+text+`"`))
	if !strings.Contains(string(ok(t, again)), "searched before") || !strings.HasPrefix(again.Header.Get(subjects.HeaderSearchStreak), "2 ") {
		t.Errorf("%q: %s", again.Header.Get(subjects.HeaderSearchStreak), again.Data)
	}
	counted := b.ask(subjects.VerbSearch, body(`"99"`))
	if strings.Contains(string(ok(t, counted)), "in a row") || !strings.HasPrefix(counted.Header.Get(subjects.HeaderSearchStreak), "100 ") {
		t.Errorf("switched off, yet %q: %s", counted.Header.Get(subjects.HeaderSearchStreak), counted.Data)
	}
	for _, bad := range []string{`"x"`, `"-1"`, `"1 x"`, `3`, `{}`, `true`} {
		if e := fails(t, b.ask(subjects.VerbSearch, body(bad))); e.Code != subjects.CodeBadRequest || e.Details["field"] != "search_streak" {
			t.Errorf("%s: %v, %v", bad, e, e.Details)
		}
	}
}
