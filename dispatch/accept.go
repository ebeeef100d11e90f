package dispatch

import (
	"context"
	"errors"
	"time"

	"toolsearch/subjects"
)

// Bounds of one accepted call. The front half's own bounds are tighter; these keep a record below a message's size.
const (
	maxEntries    = 100
	maxNames      = 64 << 10        // bytes of all names together
	acceptTimeout = 5 * time.Second // for the record and the job
)

// DefaultInline is how many bytes of arguments or of an outcome a job or a record holds itself.
const DefaultInline = 16 << 10

// Call is a call at the door: resolved, coerced and validated.
type Call struct {
	Key     CallKey
	Payload Payload
	Trace   Trace
}

// Ticket is what the caller of an accepted call holds.
type Ticket struct {
	Key CallKey
	// Attached says that the call_id was known: this is the earlier call, and nothing runs anew.
	Attached bool
}

// Acceptor makes calls durable.
type Acceptor struct {
	Records Records
	Jobs    Jobs
	Bodies  Bodies
	// Inline bounds what a job holds itself, in bytes. 0: [DefaultInline].
	Inline int
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Accept makes c durable, or attaches to it if its id is known. When it returns without an error the call will run,
// whatever becomes of this process. Errors are *subjects.Error: CALL_CONFLICT if the id was used with another payload,
// TOO_LARGE, OVERLOADED if the queue is full, BAD_REQUEST, and UNAVAILABLE if the store did not answer; the same call,
// with the same id, may then be sent again, and either attaches or is accepted.
func (a *Acceptor) Accept(ctx context.Context, c Call) (Ticket, error) {
	job, err := a.job(ctx, &c) // a big payload has the store's own bound, which knows its size
	if err != nil {
		return Ticket{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	value, err := job.record().encode()
	if err != nil {
		return Ticket{}, subjects.Errorf(subjects.CodeBadRequest, "the call cannot be written down: %v", err)
	}
	attached, err := a.create(ctx, job, value)
	if err != nil || attached != nil && !attached.waiting {
		return Ticket{Key: c.Key, Attached: true}, err
	}
	if attached != nil {
		// Its first acceptor may have gone between the record and the job. The queue stores the job once.
		job.Nonce, job.Created = attached.nonce, attached.rev
	}
	if err := a.enqueue(ctx, job, c.Trace); err != nil {
		if errors.Is(err, ErrQueueFull) && attached == nil {
			// The job was certainly not stored, and without one the record would stand for ever.
			err.Err = errors.Join(err.Err, a.Records.Remove(ctx, job.Key, job.Created))
		}
		return Ticket{}, err
	}
	return Ticket{Key: c.Key, Attached: attached != nil}, nil
}

// job checks the call, stores its payload if that is big, and makes its job.
func (a *Acceptor) job(ctx context.Context, c *Call) (*Job, error) {
	if err := c.Key.Validate(); err != nil {
		return nil, err
	}
	n := len(c.Payload.Entries)
	if n == 0 || c.Payload.Host != "" && n != 1 {
		return nil, subjects.Errorf(subjects.CodeBadRequest, "a call has entries, and one if a host runs it; this has %d", n)
	}
	if n > maxEntries {
		return nil, subjects.Errorf(subjects.CodeTooLarge, "a call of %d entries is more than %d", n, maxEntries)
	}
	digest, err := c.Payload.digest()
	if err != nil {
		return nil, &subjects.Error{Code: subjects.CodeBadRequest, Message: "the arguments are not JSON",
			Details: map[string]any{"field": "arguments"}}
	}
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	job := &Job{Version: recordVersion, Key: c.Key, Nonce: NewNonce(), Digest: digest, Hosted: c.Payload.Host != "",
		At: now().UTC(), Payload: &c.Payload}
	names := 0
	for i, e := range c.Payload.Entries {
		job.Names = append(job.Names, e.Name)
		names += len(e.Name)
		if e.Refused != nil {
			if job.Refused == nil {
				job.Refused = map[int]*subjects.EntryError{}
			}
			job.Refused[i] = e.Refused
		}
	}
	if names > maxNames {
		return nil, subjects.Errorf(subjects.CodeTooLarge, "the entries' names take %d bytes, more than %d", names, maxNames)
	}
	return job, a.spill(ctx, job)
}

// spill moves a big payload to the body store.
func (a *Acceptor) spill(ctx context.Context, job *Job) error {
	body, err := subjects.Marshal(job.Payload)
	if err != nil {
		return subjects.Errorf(subjects.CodeBadRequest, "the arguments are not JSON")
	}
	inline := a.Inline
	if inline == 0 {
		inline = DefaultInline
	}
	if len(body) <= inline {
		return nil
	}
	ref, err := a.Bodies.Put(ctx, job.Key.Tenant, body)
	if errors.Is(err, ErrTooLarge) {
		return subjects.Errorf(subjects.CodeTooLarge, "arguments of %d bytes are more than the body store takes", len(body))
	}
	if err != nil {
		return unavailable("the call's arguments could not be stored", err)
	}
	job.Payload, job.Body = nil, &ref
	return nil
}

// attachment is an earlier call of the same id.
type attachment struct {
	nonce   string
	rev     uint64
	waiting bool // no runner has written yet, so its job may be missing
}

// create writes the call's first record, or finds the one that is there.
func (a *Acceptor) create(ctx context.Context, job *Job, value []byte) (*attachment, error) {
	pause := newPause()
	for {
		rev, err := a.Records.Write(ctx, job.Key, value, 0, PhaseOpen)
		if err == nil {
			job.Created = rev
			return nil, nil
		}
		found, rev, rerr := a.Records.Read(ctx, job.Key)
		if rerr == nil {
			return a.attach(job, found, rev)
		}
		// Either nothing is there and the write may be repeated, or the store does not answer and may soon do.
		if werr := pause.wait(ctx, errors.Join(err, rerr)); werr != nil {
			return nil, unavailable("the call could not be written down", werr)
		}
	}
}

// attach tells what a record means for a call that would have made it.
func (a *Acceptor) attach(job *Job, value []byte, rev uint64) (*attachment, error) {
	rec, err := DecodeRecord(value)
	switch {
	case errors.Is(err, errNewer):
		return nil, unavailable("the call belongs to a newer worker", err)
	case err != nil:
		// Its runner will find that too, and settle it. The caller waits for that.
		return &attachment{rev: rev}, nil
	case rec.Nonce == job.Nonce: // our own write, whose acknowledgement was lost
		job.Created = rev
		return nil, nil
	case rec.Digest != job.Digest:
		return nil, subjects.Errorf(subjects.CodeCallConflict,
			"call_id %q was used with another payload in this session; nothing was sent; use a new call_id", job.Key.Call)
	}
	return &attachment{nonce: rec.Nonce, rev: rev, waiting: rec.Runner == ""}, nil
}

// enqueue stores the job for certain.
func (a *Acceptor) enqueue(ctx context.Context, job *Job, t Trace) *subjects.Error {
	p, err := subjects.Marshal(job)
	if err != nil {
		return &subjects.Error{Code: subjects.CodeInternal, Message: "the job cannot be written down", Err: err}
	}
	pause := newPause()
	for {
		err := a.Jobs.Publish(ctx, job.Key, job.msgID(), p, t)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrQueueFull) {
			return &subjects.Error{Code: subjects.CodeOverloaded, Message: "too many calls are waiting; nothing was sent",
				RetryAfter: time.Second, Err: err}
		}
		if werr := pause.wait(ctx, err); werr != nil {
			return unavailable("the call could not be queued for certain", werr)
		}
	}
}

func unavailable(what string, err error) *subjects.Error {
	return &subjects.Error{Code: subjects.CodeUnavailable, Message: what + "; send it again with the same call_id", Err: err}
}
