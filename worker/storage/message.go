package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// place is who answers a read.
type place int

const (
	anyReplica place = iota // fast, and may lag behind what was acknowledged
	leader                  // has everything that was acknowledged
)

// errNoMessage says that the place that was asked has no such message.
var errNoMessage = errors.New("no message")

// message is one stored message.
type message struct {
	data []byte
	seq  uint64
	at   time.Time // when the server stored it
}

// query selects one message: the last on a subject, or the next on a subject from a sequence on.
type query struct {
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
	Seq  uint64 `json:"seq,omitempty"`
}

// messages reads single messages of a stream by request and reply. Unlike a consumer, a message that is not there is
// an answer here and not a silence.
type messages struct {
	nc      *nats.Conn
	api     string // the prefix of the JetStream API, with its dot
	stream  string
	timeout time.Duration
}

// APIPrefix is where the JetStream API of js answers, with its dot.
func APIPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

func newMessages(js jetstream.JetStream, stream string, timeout time.Duration) messages {
	return messages{nc: js.Conn(), api: APIPrefix(js), stream: stream, timeout: timeout}
}

// get asks one place. errNoMessage is its word that there is none; any other error says that it did not answer.
func (m messages) get(ctx context.Context, p place, q query) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return message{}, err
	}
	if p == leader {
		return m.getLeader(ctx, body)
	}
	return m.getDirect(ctx, body)
}

func (m messages) getDirect(ctx context.Context, body []byte) (message, error) {
	r, err := m.nc.RequestWithContext(ctx, m.api+"DIRECT.GET."+m.stream, body)
	if err != nil {
		return message{}, m.failed(err)
	}
	switch status := r.Header.Get("Status"); {
	case len(r.Data) > 0 || status == "":
	case status == "404":
		return message{}, errNoMessage
	default:
		return message{}, m.failed(fmt.Errorf("status %s %s", status, r.Header.Get("Description")))
	}
	at, err := time.Parse(time.RFC3339Nano, r.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return message{}, m.failed(err)
	}
	seq, err := strconv.ParseUint(r.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return message{}, m.failed(err)
	}
	return message{data: r.Data, seq: seq, at: at}, nil
}

func (m messages) getLeader(ctx context.Context, body []byte) (message, error) {
	r, err := m.nc.RequestWithContext(ctx, m.api+"STREAM.MSG.GET."+m.stream, body)
	if err != nil {
		return message{}, m.failed(err)
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Seq  uint64    `json:"seq"`
			Data []byte    `json:"data"`
			Time time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(r.Data, &reply); err != nil {
		return message{}, m.failed(err)
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return message{}, errNoMessage
	case reply.Error != nil:
		return message{}, m.failed(reply.Error)
	case reply.Message == nil:
		return message{}, m.failed(errors.New("an answer without a message"))
	}
	return message{data: reply.Message.Data, seq: reply.Message.Seq, at: reply.Message.Time}, nil
}

func (m messages) failed(err error) error {
	return fmt.Errorf("storage: read of stream %s: %w", m.stream, err)
}

// confirmed reads anywhere and, unless that succeeds, at the leader, whose answer counts.
func confirmed[T any](read func(place) (T, error)) (T, error) {
	if v, err := read(anyReplica); err == nil {
		return v, nil
	}
	return read(leader)
}

// missing turns a place's word that there is no message into ErrNotFound.
func missing(err error) error {
	if errors.Is(err, errNoMessage) {
		return ErrNotFound
	}
	return err
}

// Blob is a stored blob. Its age counts from At.
type Blob struct {
	Bytes []byte
	At    time.Time
}
