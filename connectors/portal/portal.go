package portal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"toolsearch/connectors"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// Kind is the class of an error.
type Kind string

// The classes.
const (
	KindNotConfigured Kind = "not_configured" // there is no account service here
	KindSignedOut     Kind = "signed_out"     // no token, or one that the service does not take
	KindRefused       Kind = "refused"        // the service said no, such as to somebody who is no member
	KindUnreachable   Kind = "unreachable"    // no answer, or one of 500 and above; nothing was changed
	KindUnclear       Kind = "unclear"        // a change was sent and its answer is lost
)

// Error is what came of a request that did not succeed.
type Error struct {
	Kind    Kind
	Status  int    // of the answer, 0 without one
	Code    string // the service's own, or one of the Refusal codes of package subjects
	Message string
	// AuditID is the service's record of the attempt, if it made one.
	AuditID string
	cause   error
}

func (e *Error) Error() string { return "portal: " + e.Message + " (" + e.Code + ")" }

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Refusal is the error as a user's interface is told it.
func (e *Error) Refusal() *subjects.Refusal {
	return &subjects.Refusal{Code: e.Code, Message: e.Message}
}

// Options are the settings of [New].
type Options struct {
	// Origin is the service; the zero Origin is none, and every request fails.
	Origin connectors.Origin
	// Tokens are the tenants' tokens; nil means that every tenant is signed out.
	Tokens connectors.Tokens
	// Transport sends the requests. nil is one of the client's own, which Close closes.
	Transport http.RoundTripper
	// Timeout bounds one request; 0 is 30 s.
	Timeout time.Duration
	// Telemetry gets a span for each request, which then carries trace context, and the metrics; nil gets nothing.
	Telemetry *telemetry.Recorder
	// Observer is told, after Telemetry, of each request: list, disconnect or rename, how long it took and its error's kind, "" for none.
	Observer func(ctx context.Context, operation string, took time.Duration, kind Kind)
}

// Client speaks to the service. It is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client
	own  *http.Transport
}

// New makes a client. It opens nothing before the first request.
func New(o Options) (*Client, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("portal: Options.Timeout %v: must be 0 or positive", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Tokens == nil {
		o.Tokens = connectors.Static(nil)
	}
	c := &Client{o: o}
	if o.Transport == nil {
		c.own = connectors.NewTransport()
		o.Transport = c.own
	}
	if o.Telemetry != nil {
		o.Transport = o.Telemetry.Transport(o.Transport)
	}
	c.http = &http.Client{Transport: o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// Configured reports whether there is a service to ask. A nil client is one without.
func (c *Client) Configured() bool { return c != nil && !c.o.Origin.IsZero() }

// Close closes the idle connections of the client's own transport.
func (c *Client) Close() {
	if c != nil && c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Accounts is a list of accounts, or the word that it has not changed.
type Accounts struct {
	Items []subjects.LinkedAccount
	// ETag names this state of the list.
	ETag string
	// NotModified says that the list is the one of the ETag which was given.
	NotModified bool
}

// Ended is an account that was disconnected.
type Ended struct {
	// AuditID is the service's record of it.
	AuditID string
}

const accountsPath = "/api/v1/connectors/accounts"

// List reads a user's accounts; etag is that of the list which is known already, or "".
func (c *Client) List(ctx context.Context, tenant, etag string) (*Accounts, error) {
	out := &Accounts{}
	read := func(a *answer) error { return out.read(a, etag) }
	_, err := c.ask(ctx, "list", tenant, http.MethodGet, "", etag, nil, read)
	if e := (*Error)(nil); errors.As(err, &e) && e.Kind == KindUnreachable && ctx.Err() == nil {
		telemetry.OrNone(c.o.Telemetry).Metrics().Retried(ctx, "accounts", string(e.Kind))
		_, err = c.ask(telemetry.WithAttempt(ctx, 2), "list", tenant, http.MethodGet, "", etag, nil, read)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// read takes a list from an answer; etag is the one that was asked with.
func (l *Accounts) read(a *answer, etag string) error {
	if a.status == http.StatusNotModified {
		*l = Accounts{ETag: etag, NotModified: true}
		return nil
	}
	var list struct {
		Items *[]struct {
			ConnectionID string  `json:"connectionId"`
			Connector    string  `json:"connector"`
			Label        string  `json:"label"`
			Alias        *string `json:"alias"`
			Status       string  `json:"status"`
			Active       bool    `json:"active"`
			CreatedAt    string  `json:"createdAt"`
		} `json:"items"`
	}
	// An answer without a list is none: it must not be shown as a user without accounts.
	if err := json.Unmarshal(a.body, &list); err != nil || list.Items == nil {
		return &Error{Kind: KindUnreachable, Status: a.status, Code: subjects.RefusalUnreachable, cause: err,
			Message: "the account service's answer cannot be used"}
	}
	*l = Accounts{ETag: a.etag, Items: make([]subjects.LinkedAccount, 0, len(*list.Items))}
	for _, i := range *list.Items {
		item := subjects.LinkedAccount{ConnectionID: i.ConnectionID, Connector: i.Connector, Label: i.Label, Status: i.Status,
			Active: i.Active, CreatedAt: i.CreatedAt}
		if i.Alias != nil {
			item.Alias = *i.Alias
		}
		l.Items = append(l.Items, item)
	}
	return nil
}

// Disconnect ends an account. It is sent once.
func (c *Client) Disconnect(ctx context.Context, tenant, connectionID string) (*Ended, error) {
	a, err := c.ask(ctx, "disconnect", tenant, http.MethodDelete, connectionID, "", nil, nil)
	if err != nil {
		return nil, err
	}
	return &Ended{AuditID: a.audit}, nil
}

// Rename gives an account another alias. It is sent once.
func (c *Client) Rename(ctx context.Context, tenant, connectionID, alias string) error {
	body, err := subjects.Marshal(map[string]string{"alias": alias})
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, "rename", tenant, http.MethodPatch, connectionID, "", body, nil)
	return err
}

// answer is a 2xx answer, or a 304.
type answer struct {
	status      int
	body        []byte
	etag, audit string
}

// ask sends a request. use, which may be nil, reads its answer; what it cannot read is a failed request.
func (c *Client) ask(ctx context.Context, operation, tenant, method, id, etag string, body []byte, use func(*answer) error) (a *answer, err error) {
	if !c.Configured() {
		return nil, &Error{Kind: KindNotConfigured, Code: subjects.RefusalNotConfigured, Message: "no account service is set up here"}
	}
	began := time.Now()
	defer func() { c.told(ctx, operation, time.Since(began), err) }()
	within, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	token, err := c.o.Tokens.Token(within, tenant)
	if err != nil || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || token == "" {
		return nil, &Error{Kind: KindSignedOut, Code: subjects.RefusalSignedOut, cause: err, Message: "there is no valid sign-in; sign in again"}
	}
	if a, err = c.send(within, token, method, id, etag, body); err == nil && use != nil {
		err = use(a)
	}
	return a, err
}

// told tells of a request. That its caller has left is no failure of the service.
func (c *Client) told(ctx context.Context, operation string, took time.Duration, err error) {
	var e *Error
	kind := Kind("")
	if errors.As(err, &e) {
		kind = e.Kind
	}
	code := string(kind)
	if kind == KindUnreachable && errors.Is(ctx.Err(), context.Canceled) {
		code = "canceled"
	}
	telemetry.OrNone(c.o.Telemetry).Metrics().AccountsAsked(ctx, operation, code, took)
	if c.o.Observer != nil {
		c.o.Observer(ctx, operation, took, kind)
	}
}

func (c *Client) send(ctx context.Context, token, method, id, etag string, body []byte) (*answer, error) {
	target := c.o.Origin.String() + accountsPath
	if id != "" {
		if id == "." || id == ".." {
			return nil, &Error{Kind: KindRefused, Code: "BAD_REQUEST", Message: "that is no connection id"}
		}
		target += "/" + url.PathEscape(id)
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, method, target, connectors.Payload(body))
	if err != nil {
		return nil, &Error{Kind: KindRefused, Code: "BAD_REQUEST", Message: "the request cannot be made", cause: err}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "toolsearch")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, lost(method, sent.Load(), err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil && resp.StatusCode < 300 && method == http.MethodGet {
		return nil, lost(method, true, err)
	}
	if len(token) >= 8 {
		text = bytes.ReplaceAll(text, []byte(token), []byte("[redacted]"))
	}
	a := &answer{status: resp.StatusCode, body: text, etag: resp.Header.Get("ETag"), audit: resp.Header.Get("X-Audit-Id")}
	if a.status >= 200 && a.status < 300 || a.status == http.StatusNotModified && etag != "" {
		a.read(text)
		if method != http.MethodGet && !understood(text) {
			return nil, &Error{Kind: KindUnclear, Status: a.status, Code: subjects.RefusalOutcomeUnknown, AuditID: a.audit,
				Message: "the account service's answer cannot be used; look at the list to see what became of it"}
		}
		return a, nil
	}
	return nil, a.refusal(method)
}

// understood reports whether the answer to a change is the service's own: nothing, or an object. Anything else, a page of
// some proxy perhaps, is no word that the change was made.
func understood(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || text[0] == '{' && json.Valid(text)
}

// lost is the error of a request without an answer: of a change that may have been sent, nobody knows what became of it.
func lost(method string, sent bool, cause error) *Error {
	if sent && method != http.MethodGet {
		return &Error{Kind: KindUnclear, Code: subjects.RefusalOutcomeUnknown, cause: cause,
			Message: "the account service did not answer; look at the list to see what became of it"}
	}
	return &Error{Kind: KindUnreachable, Code: subjects.RefusalUnreachable, cause: cause,
		Message: "the account service is out of reach and nothing was changed; try again later"}
}

// read takes the audit id from a body that has one, where no header named it, and returns what else the body says. A
// field of another kind than it should be costs none of the others.
func (a *answer) read(body []byte) (code, message string) {
	var fields, nested map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil && a.audit == "" {
		a.audit = plain(fields["auditId"])
	}
	a.audit = cut(a.audit, maxCode)
	switch inner := fields["error"]; {
	case json.Unmarshal(inner, &nested) == nil && nested != nil:
		return plain(nested["code"]), plain(nested["message"])
	case plain(inner) != "":
		return plain(inner), plain(fields["message"])
	}
	return plain(fields["code"]), plain(fields["message"])
}

// plain is the text of a string or a number, "" for anything else.
func plain(raw json.RawMessage) string {
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(raw, &s) == nil:
		return s
	case json.Unmarshal(raw, &n) == nil:
		return n.String()
	}
	return ""
}

func (a *answer) refusal(method string) *Error {
	code, message := a.read(a.body)
	e := &Error{Kind: KindRefused, Status: a.status, Code: cut(code, maxCode), Message: cut(message, maxMessage), AuditID: a.audit}
	switch {
	case a.status == http.StatusUnauthorized:
		e.Kind, e.Code, e.Message = KindSignedOut, subjects.RefusalSignedOut, "the sign-in is no longer valid; sign in again"
	case a.status >= 500 && method != http.MethodGet:
		e.Kind, e.Code = KindUnclear, subjects.RefusalOutcomeUnknown
		e.Message = "the account service failed; look at the list to see what became of it"
	case a.status >= 500 || a.status < 400:
		e.Kind, e.Code = KindUnreachable, subjects.RefusalUnreachable
		e.Message = "the account service is out of order and nothing was changed; try again later"
	}
	if e.Code == "" {
		e.Code = fmt.Sprintf("HTTP_%d", a.status)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the account service refused it with status %d", a.status)
	}
	return e
}

// The most bytes of the service's own words.
const (
	maxMessage = 2048
	maxCode    = 256
)

// cut bounds the service's own words.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for len(s) > n {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return s
}
