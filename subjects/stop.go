package subjects

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"
)

// Stop stops the session: of the calls whose record was created before, what has not been sent stays unsent. Calls
// that are accepted later are untouched. It returns when the server has stored the stop, which then holds whatever
// becomes of the workers. reason informs; it may be empty.
func (s *Session) Stop(ctx context.Context, reason string) (*StopAck, error) {
	return s.stop(ctx, s.c.opts.Root.StopSession(anyTenant, anySession), s.c.opts.Root.StopSession(s.tenant, s.session), reason)
}

// StopCall stops one call, also one that is yet to come under this id.
func (s *Session) StopCall(ctx context.Context, call, reason string) (*StopAck, error) {
	if call == "" {
		return nil, errors.New("subjects: StopCall needs a call id; Stop stops the whole session")
	}
	return s.stop(ctx, s.c.opts.Root.StopCall(anyTenant, anySession, anyCall), s.c.opts.Root.StopCall(s.tenant, s.session, Token(call)), reason)
}

// stop sends a stop as a request that JetStream itself answers. Its message id keeps a repeated stop, whose
// acknowledgement was lost, from being stored at a later sequence and so from covering calls that came in between.
func (s *Session) stop(ctx context.Context, template, subject, reason string) (ack *StopAck, err error) {
	ctx, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	ctx, end := s.c.start(ctx, "publish", func() string { return template }, subject)
	defer func() { end(err) }()
	body, err := Marshal(Stop{Reason: reason})
	if err != nil {
		return nil, err
	}
	h := nats.Header{nats.MsgIdHdr: []string{NewCallID()}}
	s.c.inject(ctx, h)
	err = s.c.retry(ctx, func() error {
		reply, err := s.c.request(ctx, &nats.Msg{Subject: subject, Header: h, Data: body})
		switch {
		case AsPermissionError(err) != nil:
			return err
		case errors.Is(err, nats.ErrNoResponders):
			return &Error{Code: CodeUnavailable, Err: err,
				Message: "no stream stores stops on this bus now: start a worker once, or check its JetStream servers and the root of the subjects"}
		case err != nil:
			return s.c.transportError(ctx, err)
		}
		ack, err = readStopAck(reply.Data)
		return err
	})
	return ack, err
}

// readStopAck reads JetStream's answer.
func readStopAck(p []byte) (*StopAck, error) {
	var a struct {
		StopAck
		Error *struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(p, &a); err != nil {
		return nil, &Error{Code: CodeInternal, Message: "the stop was answered by something that is not JetStream", Err: err}
	}
	switch {
	case a.Error != nil && a.Error.Code >= 500:
		return nil, Errorf(CodeUnavailable, "JetStream did not store the stop: %s", a.Error.Description)
	case a.Error != nil:
		return nil, Errorf(CodeInternal, "JetStream refused the stop: %s", a.Error.Description)
	case a.Stream == "" || a.Seq == 0:
		return nil, &Error{Code: CodeInternal, Message: "the stop was answered by something that is not JetStream"}
	}
	return &a.StopAck, nil
}
