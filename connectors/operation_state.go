package connectors

import (
	"fmt"

	"toolsearch/subjects"
)

// Actor is who may move a target of an operation.
type Actor string

// The actors. Only the watcher, who asks the gateway or the host, can say that a target is connected.
const (
	ActorWatcher Actor = "watcher" // the worker that has the operation
	ActorUser    Actor = "user"    // a button of the card
	ActorClock   Actor = "clock"   // the deadline
	ActorSettle  Actor = "settle"  // the end of the operation, over what is still open
)

// MoveCause is why a target changes its state.
type MoveCause string

// The causes.
const (
	CauseMark    MoveCause = "mark"    // its start is about to be asked for
	CauseBegin   MoveCause = "begin"   // a link waits for the user
	CauseFind    MoveCause = "find"    // there was nothing to start: it is connected
	CauseConnect MoveCause = "connect" // the user has connected it
	CauseFail    MoveCause = "fail"    // refused, or no answer
	CauseLose    MoveCause = "lose"    // its worker died with the start on its way; a start is not repeated
	CauseResume  MoveCause = "resume"  // the same for a local server, which honours the key: it is asked again
	CauseExpire  MoveCause = "expire"  // the gateway says that the link is no longer good
	CauseTimeOut MoveCause = "timeout" // the deadline has come
	CauseSkip    MoveCause = "skip"    // the user leaves it alone
	CauseRetry   MoveCause = "retry"   // the user wants a new link
	CauseClose   MoveCause = "close"   // the operation is over
)

// move is one arrow of the picture.
type move struct {
	from  subjects.ConnectionState
	cause MoveCause
	by    Actor
	to    subjects.ConnectionState
	kind  string // the only kind that it is for; "" is both
}

// moves is the whole of what may happen to a target, and by whom. As a picture (Mermaid); a test holds the two against
// each other. (c) is for connectors alone, (m) for local MCP servers.
//
//	stateDiagram-v2
//	[*] --> pending
//	pending --> starting: watcher mark
//	pending --> connected: watcher find
//	pending --> failed: watcher fail
//	pending --> skipped: user skip
//	pending --> not_connected: settle close
//	starting --> initiated: watcher begin
//	starting --> connected: watcher find
//	starting --> failed: watcher fail
//	starting --> failed: watcher lose (c)
//	starting --> starting: watcher resume (m)
//	starting --> skipped: user skip
//	starting --> not_connected: settle close
//	initiated --> connected: watcher connect
//	initiated --> failed: watcher fail
//	initiated --> expired: watcher expire (c)
//	initiated --> expired: clock timeout (c)
//	initiated --> skipped: user skip
//	initiated --> pending: user retry
//	initiated --> not_connected: settle close
//	failed --> pending: user retry
//	failed --> skipped: user skip
//	expired --> pending: user retry (c)
//	expired --> skipped: user skip (c)
//	connected --> [*]
//	skipped --> [*]
//	failed --> [*]
//	expired --> [*]
//	not_connected --> [*]
var moves = []move{
	{subjects.ConnectionPending, CauseMark, ActorWatcher, subjects.ConnectionStarting, ""},
	{subjects.ConnectionPending, CauseFind, ActorWatcher, subjects.ConnectionConnected, ""},
	{subjects.ConnectionPending, CauseFail, ActorWatcher, subjects.ConnectionFailed, ""},
	{subjects.ConnectionPending, CauseSkip, ActorUser, subjects.ConnectionSkipped, ""},
	{subjects.ConnectionPending, CauseClose, ActorSettle, subjects.ConnectionNotConnected, ""},
	{subjects.ConnectionStarting, CauseBegin, ActorWatcher, subjects.ConnectionInitiated, ""},
	{subjects.ConnectionStarting, CauseFind, ActorWatcher, subjects.ConnectionConnected, ""},
	{subjects.ConnectionStarting, CauseFail, ActorWatcher, subjects.ConnectionFailed, ""},
	{subjects.ConnectionStarting, CauseLose, ActorWatcher, subjects.ConnectionFailed, subjects.KindHosted},
	{subjects.ConnectionStarting, CauseResume, ActorWatcher, subjects.ConnectionStarting, subjects.KindMCP},
	{subjects.ConnectionStarting, CauseSkip, ActorUser, subjects.ConnectionSkipped, ""},
	{subjects.ConnectionStarting, CauseClose, ActorSettle, subjects.ConnectionNotConnected, ""},
	{subjects.ConnectionInitiated, CauseConnect, ActorWatcher, subjects.ConnectionConnected, ""},
	{subjects.ConnectionInitiated, CauseFail, ActorWatcher, subjects.ConnectionFailed, ""},
	{subjects.ConnectionInitiated, CauseExpire, ActorWatcher, subjects.ConnectionExpired, subjects.KindHosted},
	{subjects.ConnectionInitiated, CauseTimeOut, ActorClock, subjects.ConnectionExpired, subjects.KindHosted},
	{subjects.ConnectionInitiated, CauseSkip, ActorUser, subjects.ConnectionSkipped, ""},
	{subjects.ConnectionInitiated, CauseRetry, ActorUser, subjects.ConnectionPending, ""},
	{subjects.ConnectionInitiated, CauseClose, ActorSettle, subjects.ConnectionNotConnected, ""},
	{subjects.ConnectionFailed, CauseRetry, ActorUser, subjects.ConnectionPending, ""},
	{subjects.ConnectionFailed, CauseSkip, ActorUser, subjects.ConnectionSkipped, ""},
	{subjects.ConnectionExpired, CauseRetry, ActorUser, subjects.ConnectionPending, subjects.KindHosted},
	{subjects.ConnectionExpired, CauseSkip, ActorUser, subjects.ConnectionSkipped, subjects.KindHosted},
}

// MoveError is a change of state that is not in the table.
type MoveError struct {
	From  subjects.ConnectionState
	Cause MoveCause
	By    Actor
}

func (e *MoveError) Error() string {
	return fmt.Sprintf("connectors: a target that is %s cannot %s by the %s", e.From, e.Cause, e.By)
}

// next is the state that follows, or a *[MoveError] for what must never happen.
func next(from subjects.ConnectionState, c MoveCause, by Actor, kind string) (subjects.ConnectionState, error) {
	for _, m := range moves {
		if m.from == from && m.cause == c && m.by == by && (m.kind == "" || m.kind == kind) {
			return m.to, nil
		}
	}
	return from, &MoveError{From: from, Cause: c, By: by}
}

// resolved reports whether nothing more is waited for. A link that ran out is not: the user may ask for another until
// the deadline.
func resolved(s subjects.ConnectionState) bool {
	return s == subjects.ConnectionConnected || s == subjects.ConnectionSkipped || s == subjects.ConnectionFailed
}
