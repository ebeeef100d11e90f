package dispatch

import (
	"testing"

	"toolsearch/subjects"
)

func TestStopCovers(t *testing.T) {
	t.Parallel()
	k := CallKey{"acme", "s1", "c1"}
	root := subjects.DefaultRoot
	for _, test := range []struct {
		subject      string
		seq, created uint64
		want         bool
	}{
		{root.StopSession("acme", "s1"), 11, 10, true},
		{root.StopSession("acme", "s1"), 10, 10, false},
		{root.StopSession("acme", "s1"), 9, 10, false},
		{root.StopSession("acme", "s2"), 11, 10, false},
		{root.StopSession("other", "s1"), 11, 10, false},
		{root.StopCall("acme", "s1", "c1"), 11, 10, true},
		{root.StopCall("acme", "s1", "c1"), 9, 10, true},
		{root.StopCall("acme", "s1", "c2"), 11, 10, false},
		{root.StopCall("acme", "s2", "c1"), 11, 10, false},
		{root.Result("acme", "s1", "c1"), 11, 10, false},
		{root.Job("acme", "s1"), 11, 10, false},
	} {
		a, err := root.Parse(test.subject)
		if err != nil {
			t.Fatal(err)
		}
		if got := StopCovers(a, test.seq, k, test.created); got != test.want {
			t.Errorf("%s at %d, record at %d: %t, want %t", test.subject, test.seq, test.created, got, test.want)
		}
	}
}
