package connectors

import (
	"context"
	"errors"

	"toolsearch/subjects"
)

// SignIn is why a tenant cannot manage connections. The empty one is that nothing stands in the way.
//
//	             search, describe             call              status, connect, reconnect, rename
//	disabled     as if there were none        TOOL_NOT_FOUND    not available here
//	signed_out   as if there were none        TOOL_NOT_FOUND    the user must sign in
//	dark         as if there were none        TOOL_NOT_FOUND    not served for this account
//	not_enabled  as if there were none        PROVIDER_ERROR    not enabled for this account
//	expired      condition sign_in_expired    PROVIDER_ERROR    the user must sign in again
//	not_set_up   condition not_set_up         PROVIDER_ERROR    set up first
//	unreachable  condition unreachable        PROVIDER_ERROR    try again later
//
// Actions on local MCP servers need none of it.
type SignIn string

// The states of the sign-in.
const (
	SignInOK          SignIn = ""
	SignInDisabled    SignIn = "disabled"
	SignInSignedOut   SignIn = "signed_out"
	SignInDark        SignIn = "dark"
	SignInNotEnabled  SignIn = "not_enabled"
	SignInExpired     SignIn = "expired"
	SignInNotSetUp    SignIn = "not_set_up"
	SignInUnreachable SignIn = "unreachable"
)

// SignInOf classifies what came of a request about connections.
func SignInOf(err error) SignIn {
	var e *Error
	switch {
	case err == nil:
		return SignInOK
	case errors.Is(err, errSignedOut):
		return SignInSignedOut
	case !errors.As(err, &e):
		return SignInUnreachable
	case e.Code == CodeNoOrigin:
		return SignInDisabled
	case e.Kind == KindUnavailable:
		return SignInDark
	}
	switch FailureOf(err) {
	case FailureSignInExpired:
		return SignInExpired
	case FailureNotSetUp:
		return SignInNotSetUp
	case FailureNone:
		return SignInNotEnabled // a 403 that is about a permission
	}
	return SignInUnreachable
}

// status is the word in a status reply.
func (s SignIn) status() string {
	switch s {
	case SignInNotSetUp:
		return "not_set_up"
	case SignInOK:
		return ""
	}
	return "unavailable"
}

// hint tells a model what stands in the way and what to do about it.
func (s SignIn) hint() string {
	switch s {
	case SignInDisabled:
		return "Remote apps are switched off here. Go on without them; only an administrator can switch them on."
	case SignInSignedOut:
		return "Nobody is signed in, so there are no remote apps. Ask the user to sign in, then try again."
	case SignInDark:
		return "Remote apps are not served for this account. Go on without them."
	case SignInNotEnabled:
		return "Remote apps are not enabled for this account. Tell the user that an administrator must allow them."
	case SignInExpired:
		return "The sign-in has expired. Ask the user to sign in again, then try again."
	case SignInNotSetUp:
		return "Remote apps are not set up for this account yet. Ask the user to set them up by signing in, then try again."
	case SignInUnreachable:
		return "The apps could not be asked just now. This does not mean that one is missing; try again later."
	}
	return ""
}

// SetUp is what a [Tokens] also implements if it can set connectors up for a tenant by itself, such as by making an
// identity for a guest. After it, Token answers without [ErrNotSetUp].
type SetUp interface {
	SetUp(ctx context.Context, tenant string) error
}

// SignIn tells, without asking the gateway, whether anything can be asked for a tenant. What only the gateway knows
// (dark, not enabled, most that has expired) is told by the request itself. A tenant that is not set up is set up here,
// where the source of the tokens can.
func (g *Gateway) SignIn(ctx context.Context, tenant string) SignIn {
	if !g.Configured() {
		return SignInDisabled
	}
	token, err := g.client.tokens.Token(ctx, tenant)
	if source, ok := g.client.tokens.(SetUp); ok && errors.Is(err, ErrNotSetUp) && source.SetUp(ctx, tenant) == nil {
		token, err = g.client.tokens.Token(ctx, tenant)
	}
	if err == nil && token == "" {
		err = errSignedOut
	}
	if err == nil {
		return SignInOK
	}
	return SignInOf(tokenError(err))
}

// Refusal is the mistake that tells a model of a sign-in that does not allow what it asked for; nil where it does.
func (s SignIn) Refusal() error {
	if s == SignInOK {
		return nil
	}
	return &subjects.ToolError{Message: "Nothing was done. " + s.hint()}
}
