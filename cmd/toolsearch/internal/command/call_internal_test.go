package command

import (
	"bytes"
	"testing"

	"toolsearch/cmd/toolsearch/internal/screen"
	"toolsearch/subjects"
)

// TestMissingConnectionShowsItsLink checks that whoever calls from the command line need not ask for JSON to get on.
func TestMissingConnectionShowsItsLink(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{out: screen.New(&out, func() []string { return nil })}
	a.printEntry(&subjects.EntryEvent{EntryResult: subjects.EntryResult{Name: "connectors__chat__POST", Error: &subjects.EntryError{
		Code: "CONNECTION_REQUIRED", Message: "chat is not connected", ConnectURL: "http://gateway/connect/1"}},
		Outcome: subjects.OutcomeError, Attempts: 1})
	want := " 0  error        connectors__chat__POST  CONNECTION_REQUIRED: chat is not connected\n    open http://gateway/connect/1\n"
	if out.String() != want {
		t.Errorf("printed\n%q, want\n%q", out.String(), want)
	}
}
