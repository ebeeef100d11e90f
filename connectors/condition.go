package connectors

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"toolsearch/subjects"
)

// Failure is the word for why connector tools are missing from an answer. The empty one is nothing to tell: the
// answer is the same as if connectors did not exist.
type Failure string

// The failures that are told.
const (
	FailureNone          Failure = ""
	FailureUnreachable   Failure = "unreachable"
	FailureSignInExpired Failure = "sign_in_expired"
	FailureNotSetUp      Failure = "not_set_up"
)

// Verb is what could not be done with connector tools.
type Verb string

// The verbs of the legs.
const (
	Searched  Verb = "searched"
	Described Verb = "described"
)

// FailureOf classifies what came of a search or a describe.
//
//   - nothing to tell: no error, signed out, no gateway, a 404, and a 403 that is about a permission;
//   - sign_in_expired: a 401, a token that cannot be renewed, and a 403 that is about the token;
//   - not_set_up: the token source says so;
//   - unreachable: everything else.
func FailureOf(err error) Failure {
	var e *Error
	switch {
	case err == nil || errors.Is(err, errSignedOut):
		return FailureNone
	case !errors.As(err, &e):
		return FailureUnreachable
	case e.Kind == KindUnavailable:
		return FailureNone
	case e.Code == CodeNotSetUp:
		return FailureNotSetUp
	case e.Kind == KindAuth && (e.Status == http.StatusUnauthorized || slices.Contains(tokenCodes, strings.ToUpper(e.Code))):
		return FailureSignInExpired
	case e.Kind == KindAuth:
		return FailureNone
	}
	return FailureUnreachable
}

// tokenCodes are the codes, in capitals, with which a 403 speaks of the token.
var tokenCodes = []string{"UNAUTHORIZED", "INVALID_TOKEN", "TOKEN_EXPIRED"}

// Condition is the connectors field beside local results; nil for [FailureNone]. names are the connector names that
// could not be described, nil for a search.
func Condition(f Failure, v Verb, names []string) *subjects.ConnectorsCondition {
	if len(names) == 0 {
		names = nil
	}
	switch f {
	case FailureNone:
		return nil
	case FailureNotSetUp:
		return &subjects.ConnectorsCondition{Status: "not_set_up", Names: names,
			Hint: "Connectors are not set up yet. Call manage_connections to set them up."}
	}
	hint := "Connector tools could not be " + string(v) + " just now. " +
		"This does not mean that an app is missing; try again later."
	if f == FailureSignInExpired {
		hint = "Connector tools could not be " + string(v) + ": the sign-in has expired. " +
			"This does not mean that an app is missing; ask the user to sign in again."
	}
	return &subjects.ConnectorsCondition{Status: "unavailable", Reason: string(f), Hint: hint, Names: names}
}
