package dispatch

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"toolsearch/subjects"
)

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	want := &Record{Version: recordVersion, Nonce: "n", Digest: "d", Created: 7, Runner: "r", Write: 3, Takeovers: 1, Generation: 2, Job: 9,
		Entries: []EntryRecord{
			{Name: "a", State: StateOK, Attempts: 2, Runs: 1, StartedAt: &at, FinishedAt: &at, Outcome: &EntryOutcome{Response: json.RawMessage(`{"x":1.50,"y":"<&>"}`)}},
			{Name: "b", State: StateError, FinishedAt: &at, OutcomeBody: &BodyRef{Object: "o", Digest: "d"}},
			{Name: "c", State: StateStarted, StartedAt: &at, Runs: 2, Arguments: json.RawMessage(`{"q":"ü"}`)},
			{Name: "d", State: StatePending},
		}}
	p, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(p), `{"x":1.50,"y":"<&>"}`) {
		t.Fatalf("a response does not stay as it was: %s", p)
	}
	got, err := DecodeRecord(p)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	for what, p := range map[string]string{
		"empty":            ``,
		"no JSON":          `{`,
		"an array":         `[]`,
		"null":             `null`,
		"no version":       `{"nonce":"n","entries":[{"name":"a","state":"pending"}]}`,
		"no nonce":         `{"v":1,"entries":[{"name":"a","state":"pending"}]}`,
		"no entries":       `{"v":1,"nonce":"n"}`,
		"unknown state":    `{"v":1,"nonce":"n","entries":[{"name":"a","state":"?"}]}`,
		"no outcome":       `{"v":1,"nonce":"n","entries":[{"name":"a","state":"ok"}]}`,
		"two outcomes":     `{"v":1,"nonce":"n","entries":[{"name":"a","state":"ok","outcome":{},"outcome_body":{"object":"o","digest":"d"}}]}`,
		"wrong field type": `{"v":1,"nonce":"n","entries":7}`,
	} {
		if r, err := DecodeRecord([]byte(p)); err == nil || errors.Is(err, errNewer) {
			t.Errorf("%s: read as %+v, %v", what, r, err)
		}
	}
	if _, err := DecodeRecord([]byte(`{"v":2,"entries":{}}`)); !errors.Is(err, errNewer) {
		t.Errorf("a newer record: %v", err)
	}
	if _, err := DecodeJob([]byte(`{"v":2}`)); !errors.Is(err, errNewer) {
		t.Errorf("a newer job: %v", err)
	}
}

// The acceptor and the first runner make the same record of a job.
func TestRecordOfJob(t *testing.T) {
	t.Parallel()
	job := &Job{Version: recordVersion, Key: CallKey{"t", "s", "c"}, Nonce: "n", Digest: "d", At: time.Unix(1, 0).UTC(),
		Names: []string{"a", "b"}, Refused: map[int]*subjects.EntryError{1: {Code: subjects.EntryToolNotFound, Message: "m"}},
		Payload: &Payload{Entries: []CallEntry{{Name: "a", Arguments: json.RawMessage(`{}`)}, {Name: "b"}}}}
	p, err := subjects.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeJob(p)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := job.record().encode()
	two, _ := again.record().encode()
	if string(one) != string(two) {
		t.Fatalf("%s\n%s", one, two)
	}
	if r := again.record(); r.Entries[0].State != StatePending || r.Entries[1].State != StateError || r.settled() {
		t.Fatalf("%+v", r)
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	for want, r := range map[Phase]Record{PhaseOpen: {Runner: "r"}, PhaseReturned: {Runner: "r", Returned: true}, PhasePublished: {Published: true}} {
		if got := r.phase(); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"v":1,"nonce":"n","entries":[{"name":"a","state":"ok","outcome":{"response":1}}]}`))
	f.Add([]byte(`{"v":1,"nonce":"n","entries":[{"name":"a","state":"started","arguments":{}}]}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeRecord(p)
		if err != nil {
			return
		}
		q, err := r.encode()
		if err != nil {
			t.Fatalf("a record that was read cannot be written: %v", err)
		}
		if _, err := DecodeRecord(q); err != nil {
			t.Fatalf("a record that was written cannot be read: %v\n%s", err, q)
		}
	})
}

func FuzzDecodeJob(f *testing.F) {
	f.Add([]byte(`{"v":1,"key":{"tenant":"t","session":"s","call":"c"},"nonce":"n","names":["a"],"payload":{"entries":[{"name":"a"}]}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if j, err := DecodeJob(p); err == nil {
			if _, err := j.record().encode(); err != nil {
				t.Fatalf("a job that was read makes no record: %v", err)
			}
		}
	})
}
