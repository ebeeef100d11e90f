package dispatch

import (
	"fmt"

	"toolsearch/subjects"
)

// State is where one entry of a call stands. The record of the call holds it, and only [State.Next] changes it.
//
// As a picture (Mermaid); a test holds it against the table below.
//
//	stateDiagram-v2
//	[*] --> pending
//	pending --> started: mark
//	pending --> error: refuse
//	pending --> interrupted: stop
//	pending --> abandoned: abandon
//	pending --> unknown: unreadable
//	started --> pending: take-back
//	started --> interrupted: stop
//	started --> started: resume
//	started --> ok: succeed
//	started --> error: fail
//	started --> unknown: lose
//	started --> unknown: abandon
//	abandoned --> pending: reopen
//	ok --> [*]
//	error --> [*]
//	interrupted --> [*]
//	unknown --> [*]
type State string

// The states. "started" means that the entry may have been sent; "pending" means that it was not.
const (
	StatePending     State = "pending"
	StateStarted     State = "started"
	StateOK          State = "ok"
	StateError       State = "error"
	StateInterrupted State = "interrupted"
	StateUnknown     State = "unknown"
	StateAbandoned   State = "abandoned"
)

// Cause is why an entry changes its state.
type Cause string

// The causes.
const (
	CauseMark       Cause = "mark"       // a runner is about to send it
	CauseTakeBack   Cause = "take-back"  // the runner that marked it did not send it, and hands the job back
	CauseResume     Cause = "resume"     // a runner sends it again, under the same keys, after another one's mark
	CauseStop       Cause = "stop"       // a stop covers it, and it was not sent
	CauseRefuse     Cause = "refuse"     // it must not be sent: refused at the door, denied by policy, or too late
	CauseSucceed    Cause = "succeed"    // sent, and it worked
	CauseFail       Cause = "fail"       // sent, and it is known to have failed
	CauseLose       Cause = "lose"       // it may have been sent, and what became of it cannot be known
	CauseAbandon    Cause = "abandon"    // its runners died too often
	CauseUnreadable Cause = "unreadable" // the call's record cannot be read, so nothing is known of it
	CauseReopen     Cause = "reopen"     // an operator wants it tried again
)

// transition is one arrow of the picture.
type transition struct {
	from  State
	cause Cause
	to    State
}

// transitions is the whole of what may happen to an entry. INTERRUPTED is reached only by [CauseStop], which is given
// only for what was certainly not sent; so a stop can never hide an effect.
var transitions = []transition{
	{StatePending, CauseMark, StateStarted},
	{StatePending, CauseRefuse, StateError},
	{StatePending, CauseStop, StateInterrupted},
	{StatePending, CauseAbandon, StateAbandoned},
	{StatePending, CauseUnreadable, StateUnknown},
	{StateStarted, CauseTakeBack, StatePending},
	{StateStarted, CauseStop, StateInterrupted},
	{StateStarted, CauseResume, StateStarted},
	{StateStarted, CauseSucceed, StateOK},
	{StateStarted, CauseFail, StateError},
	{StateStarted, CauseLose, StateUnknown},
	{StateStarted, CauseAbandon, StateUnknown},
	{StateAbandoned, CauseReopen, StatePending},
}

// Next is the state that follows s by the cause c, or an error for what must never happen.
func (s State) Next(c Cause) (State, error) {
	for _, t := range transitions {
		if t.from == s && t.cause == c {
			return t.to, nil
		}
	}
	return s, fmt.Errorf("dispatch: an entry that is %s cannot %s", s, c)
}

// Settled reports whether the entry has its outcome. Only an operator moves it again, and only out of "abandoned".
func (s State) Settled() bool { return s.Outcome() != "" }

// Known reports whether s is one of the states.
func (s State) Known() bool { return s == StatePending || s == StateStarted || s.Settled() }

// Outcome is the word for a settled state in events, or "" for one that is not settled.
func (s State) Outcome() subjects.Outcome {
	switch s {
	case StateOK:
		return subjects.OutcomeOK
	case StateError:
		return subjects.OutcomeError
	case StateInterrupted:
		return subjects.OutcomeInterrupted
	case StateUnknown:
		return subjects.OutcomeUnknown
	case StateAbandoned:
		return subjects.OutcomeAbandoned
	}
	return ""
}
