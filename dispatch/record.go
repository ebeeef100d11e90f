package dispatch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"toolsearch/subjects"
)

// recordVersion is the version of the record's and the job's JSON. A worker leaves a newer one to a newer worker.
const recordVersion = 1

// Record is the journal of one call: what is known of each entry, and who is at it. It is written by compare-and-set
// only. What an entry is to do stands in the job, and here only where a policy hook changed it.
type Record struct {
	Version int    `json:"v"`
	Nonce   string `json:"nonce"`
	// Digest is the payload's; a repeated call_id with another payload is a conflict.
	Digest string `json:"digest"`
	// Hosted says that the one entry is a tool of a host, whose result is the reply.
	Hosted bool `json:"hosted,omitempty"`
	// Created is the sequence of the record's first write; 0 in that write itself. It decides which stops of the
	// session cover the call.
	Created uint64 `json:"created,omitempty"`
	// Runner is who wrote this, one id for each pickup; empty in the first write, which is the acceptor's.
	Runner string `json:"runner,omitempty"`
	// Returned says that nobody is at the call: Runner handed it back, and its successor does not count as a takeover.
	Returned bool `json:"returned,omitempty"`
	// Write numbers the writes, so that a runner can tell its own from another's after an unclear answer.
	Write uint64 `json:"write,omitempty"`
	// Takeovers counts the runners that were found gone in this generation.
	Takeovers int `json:"takeovers,omitempty"`
	// Generation counts the times an operator reopened the call.
	Generation int `json:"generation,omitempty"`
	// Job is the sequence of the job that works for this record; a job of another sequence is a duplicate while this
	// one stands.
	Job uint64 `json:"job,omitempty"`
	// Dead says that the job must be copied to where an operator can read it before it is acknowledged.
	Dead bool `json:"dead,omitempty"`
	// Published says that every event and the summary have been stored.
	Published bool          `json:"published,omitempty"`
	Entries   []EntryRecord `json:"entries"`
}

// EntryRecord is the journal of one entry.
type EntryRecord struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Arguments, or the body named by ArgumentsBody, are the final arguments where a hook rewrote them.
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	ArgumentsBody *BodyRef        `json:"arguments_body,omitempty"`
	// Runs counts the runners that may have sent it.
	Runs     int `json:"runs,omitempty"`
	Attempts int `json:"attempts,omitempty"`
	// Generation is the call's at the time the entry settled.
	Generation int        `json:"generation,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	// Outcome, or the body named by OutcomeBody, is what a settled entry came to.
	Outcome     *EntryOutcome `json:"outcome,omitempty"`
	OutcomeBody *BodyRef      `json:"outcome_body,omitempty"`
}

// EntryOutcome is what a settled entry tells the model.
type EntryOutcome struct {
	Response json.RawMessage      `json:"response,omitempty"`
	Error    *subjects.EntryError `json:"error,omitempty"`
	Account  string               `json:"account,omitempty"`
}

// BodyRef names a body that is too big for the message that speaks of it.
type BodyRef struct {
	Object string `json:"object"`
	Digest string `json:"digest"`
}

// Phase is what a write of a record tells whoever watches, without reading it.
type Phase string

// The phases. An open record lives as long as the call is open, a published one for 24 hours.
const (
	PhaseOpen      Phase = "open"
	PhaseReturned  Phase = "returned"
	PhasePublished Phase = "published"
)

// phase is the record's, as its next write announces it.
func (r *Record) phase() Phase {
	switch {
	case r.Published:
		return PhasePublished
	case r.Returned:
		return PhaseReturned
	}
	return PhaseOpen
}

// settled reports whether no entry is left open.
func (r *Record) settled() bool {
	for i := range r.Entries {
		if !r.Entries[i].State.Settled() {
			return false
		}
	}
	return true
}

// move changes the state of entry i. A refused transition is a defect of this program, which must not reach the record.
func (r *Record) move(i int, c Cause) error {
	next, err := r.Entries[i].State.Next(c)
	if err != nil {
		return fmt.Errorf("entry %d: %w", i, err)
	}
	r.Entries[i].State = next
	return nil
}

// sameWrite reports whether both are the same write of the same runner.
func (r *Record) sameWrite(o *Record) bool {
	return r.Runner == o.Runner && r.Write == o.Write && r.Nonce == o.Nonce
}

func (r *Record) encode() ([]byte, error) { return subjects.Marshal(r) }

// errNewer is a record or job that a newer version of this program wrote.
var errNewer = errors.New("dispatch: written by a newer version; a newer worker must take it")

// DecodeRecord reads a record and checks that it can be worked with.
func DecodeRecord(p []byte) (*Record, error) {
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(p, &v); err != nil {
		return nil, fmt.Errorf("dispatch: record: %w", err)
	}
	if v.Version > recordVersion {
		return nil, errNewer
	}
	r := &Record{}
	if err := json.Unmarshal(p, r); err != nil {
		return nil, fmt.Errorf("dispatch: record: %w", err)
	}
	if r.Version < 1 || r.Nonce == "" || len(r.Entries) == 0 {
		return nil, errors.New("dispatch: record: no version, nonce or entries")
	}
	for i, e := range r.Entries {
		if !e.State.Known() {
			return nil, fmt.Errorf("dispatch: record: entry %d: unknown state %q", i, e.State)
		}
		if e.State.Settled() && (e.Outcome == nil) == (e.OutcomeBody == nil) {
			return nil, fmt.Errorf("dispatch: record: entry %d is %s without one outcome", i, e.State)
		}
	}
	return r, nil
}

// Payload is what a call is to do. It does not change after the call was accepted.
type Payload struct {
	// Host is the tool host that runs the one entry; empty for a batch of connector entries.
	Host string `json:"host,omitempty"`
	// Toolset is the tool's, for the policy hook; empty for connectors.
	Toolset string `json:"toolset,omitempty"`
	// Parallel says that the host's tools may run side by side; otherwise its calls wait in line.
	Parallel bool `json:"parallel,omitempty"`
	// Parameters is the hosted tool's schema, to check arguments that a hook rewrote; nil checks nothing.
	Parameters json.RawMessage  `json:"parameters,omitempty"`
	Surface    subjects.Surface `json:"surface,omitempty"`
	Hooks      subjects.Hooks   `json:"hooks,omitzero"`
	// Deadline settles what has not started by then as DEADLINE_EXCEEDED; zero is none.
	Deadline time.Time   `json:"deadline,omitzero"`
	Entries  []CallEntry `json:"entries"`
}

// CallEntry is one thing to do, with arguments that were coerced and validated.
type CallEntry struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	// Refused is the error of an entry that must not be sent, such as a malformed connector name in a batch. It keeps
	// that error, whatever becomes of its siblings.
	Refused *subjects.EntryError `json:"refused,omitempty"`
}

// digest names what the payload does: host, names and arguments. How it is done (surface, hooks, deadline) is left
// out, so that a caller may ask again with a later deadline.
func (p *Payload) digest() (string, error) {
	type entry struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	d := struct {
		Host    string  `json:"host"`
		Entries []entry `json:"entries"`
	}{Host: p.Host}
	for _, e := range p.Entries {
		d.Entries = append(d.Entries, entry{e.Name, e.Arguments})
	}
	b, err := subjects.Marshal(d) // compacts the arguments
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Job is the message of the work queue. It lives until the call's summary is recorded and published.
type Job struct {
	Version int     `json:"v"`
	Key     CallKey `json:"key"`
	Nonce   string  `json:"nonce"`
	Digest  string  `json:"digest"`
	// Created is the sequence of the record's first write.
	Created    uint64 `json:"created"`
	Generation int    `json:"generation,omitempty"`
	// Names are the entries' names, and Refused their errors at the door, so that a record can be made from the job
	// alone.
	Names   []string                     `json:"names"`
	Refused map[int]*subjects.EntryError `json:"refused,omitempty"`
	Hosted  bool                         `json:"hosted,omitempty"`
	At      time.Time                    `json:"at"`
	// Payload stands here, or in the body named by Body.
	Payload *Payload `json:"payload,omitempty"`
	Body    *BodyRef `json:"body,omitempty"`
}

// DecodeJob reads a job and checks that it can be worked with.
func DecodeJob(p []byte) (*Job, error) {
	j := &Job{}
	if err := json.Unmarshal(p, j); err != nil {
		return nil, fmt.Errorf("dispatch: job: %w", err)
	}
	if j.Version > recordVersion {
		return nil, errNewer
	}
	if err := j.Key.Validate(); err != nil {
		return nil, fmt.Errorf("dispatch: job: %w", err)
	}
	if j.Nonce == "" || len(j.Names) == 0 || (j.Payload == nil) == (j.Body == nil) {
		return nil, errors.New("dispatch: job: no nonce, entries or payload")
	}
	return j, nil
}

// msgID names the job's message, so that a repeated publish within the queue's window stores it once.
func (j *Job) msgID() string { return fmt.Sprintf("%s.g%d", j.Key, j.Generation) }

// record is the call's first record. It is made from the job alone, by the acceptor and by the job's first runner, so
// both make the same one.
func (j *Job) record() *Record {
	r := &Record{Version: recordVersion, Nonce: j.Nonce, Digest: j.Digest, Hosted: j.Hosted,
		Entries: make([]EntryRecord, len(j.Names))}
	for i, name := range j.Names {
		e := &r.Entries[i]
		e.Name, e.State = name, StatePending
		if refused := j.Refused[i]; refused != nil {
			at := j.At
			e.State, e.Outcome, e.FinishedAt = StateError, &EntryOutcome{Error: refused}, &at
		}
	}
	return r
}
