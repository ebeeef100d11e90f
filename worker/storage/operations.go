package storage

import "strings"

// operationKey ends the key of a session's operation. A call's record has one token behind the session's, so the two
// never meet.
const operationKey = ".connections.operation"

// OperationSubject is where the open or last operation of a session lies. It is in the stream of the call records, so
// that one sequence orders it against the stops.
func (l Layout) OperationSubject(tenant, session string) string {
	return l.RecordSubject(tenant + "." + session + operationKey)
}

// OperationSubjects matches the operations of all sessions.
func (l Layout) OperationSubjects() string { return l.RecordSubject("*.*" + operationKey) }

// OperationOwner reads the tenant and the session from an operation's subject.
func (l Layout) OperationOwner(subject string) (tenant, session string, ok bool) {
	rest, below := strings.CutPrefix(subject, l.RecordSubject(""))
	rest, ends := strings.CutSuffix(rest, operationKey)
	tenant, session, two := strings.Cut(rest, ".")
	return tenant, session, below && ends && two && !strings.Contains(session, ".")
}
