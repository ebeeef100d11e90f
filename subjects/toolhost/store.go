package toolhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
)

const (
	keysAge     = 25 * time.Hour  // a day, and what clocks may differ by
	storeWait   = 5 * time.Second // own bound of one write
	inlineReply = 64 << 10        // a larger answer goes to the body store before its record names it
	ownerGrace  = 5 * time.Second // added to an owner's deadline before it counts as dead
	settleTries = 3               // writes of an answer before it stays in this process only
)

// KeysBucket is the name of the bucket in which [OpenKeys] keeps the keys of a tenant's hosts.
func KeysBucket(tenant string) string { return "TOOLSEARCH_HOSTS_" + tenant }

// OpenKeys opens the bucket that keeps idempotency keys across restarts, for [Options.Keys], and creates it where it
// is missing: on file, 25 hours. One bucket serves all hosts of a tenant.
func OpenKeys(ctx context.Context, js jetstream.JetStream, tenant string, replicas int) (jetstream.KeyValue, error) {
	if !subjects.ValidToken(tenant) {
		return nil, fmt.Errorf("toolhost: tenant %q is no token; see subjects.Token", tenant)
	}
	return js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: KeysBucket(tenant), Description: "toolsearch: idempotency keys of tool hosts", TTL: keysAge,
		Storage: jetstream.FileStorage, Replicas: max(replicas, 1), History: 1,
	})
}

// keyStore keeps one record per idempotency key. A record is created before the tool runs, so a key whose owner died
// is known to have run.
type keyStore struct {
	kv     jetstream.KeyValue
	bodies *subjects.Bodies
	tenant string
	prefix string
}

// keyRecord is the value of one key: running without Reply and Object, else answered.
type keyRecord struct {
	Fingerprint string              `json:"fingerprint"`
	Owner       string              `json:"owner"` // random, one per claim
	Until       time.Time           `json:"until"` // the owner's deadline
	Reply       *subjects.HostReply `json:"reply,omitempty"`
	Object      string              `json:"object,omitempty"` // where the reply is large
	Digest      string              `json:"digest,omitempty"`
}

// claim is a key that this process runs.
type claim struct {
	key    string
	record keyRecord
}

func newKeyStore(kv jetstream.KeyValue, bodies *subjects.Bodies, tenant, host string) *keyStore {
	return &keyStore{kv: kv, bodies: bodies, tenant: tenant, prefix: host + "."}
}

// claim takes the key of r, or gives the answer that it got elsewhere, waiting for it where it runs there. An error
// says that neither is known and nothing was run.
func (s *keyStore) claim(ctx context.Context, r *subjects.HostRequest) (*claim, *subjects.HostReply, error) {
	sum, print := sha256.Sum256([]byte(r.IdempotencyKey)), fingerprint(r)
	c := &claim{key: s.prefix + hex.EncodeToString(sum[:]), record: keyRecord{
		Fingerprint: hex.EncodeToString(print[:]), Owner: subjects.NewCallID(), Until: r.Deadline,
	}}
	value, err := json.Marshal(c.record)
	if err != nil {
		return nil, nil, err
	}
	for {
		if _, err = s.kv.Create(ctx, c.key, value); err == nil {
			return c, nil, nil
		}
		// Whatever the error says, the record tells: a write whose acknowledgement was lost stands there as ours.
		found, getErr := s.get(ctx, c.key)
		switch {
		case getErr != nil:
			return nil, nil, unavailable(errors.Join(err, getErr))
		case found == nil && !errors.Is(err, jetstream.ErrKeyExists):
			return nil, nil, unavailable(err)
		case found == nil:
			continue // released in between
		case found.Owner == c.record.Owner:
			return c, nil, nil
		case found.Fingerprint != c.record.Fingerprint:
			return nil, nil, &subjects.Error{Code: subjects.CodeCallConflict, Message: conflict().Error.Message}
		}
		reply, err := s.await(ctx, c.key)
		if reply != nil || err != nil {
			return nil, reply, err
		}
	}
}

// get reads a record, nil where there is none.
func (s *keyStore) get(ctx context.Context, key string) (*keyRecord, error) {
	e, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readRecord(e.Value())
}

func readRecord(p []byte) (*keyRecord, error) {
	r := new(keyRecord)
	if err := json.Unmarshal(p, r); err != nil {
		return nil, fmt.Errorf("toolhost: the record of an idempotency key cannot be read: %w", err)
	}
	return r, nil
}

// await waits for the answer that another process owes; nil is a key that was released.
func (s *keyStore) await(ctx context.Context, key string) (*subjects.HostReply, error) {
	w, err := s.kv.Watch(ctx, key)
	if err != nil {
		return nil, unavailable(err)
	}
	defer w.Stop() //nolint:errcheck // the connection may be gone
	dead := time.NewTimer(time.Hour)
	defer dead.Stop()
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return nil, unavailable(errors.New("the watch ended"))
			case e == nil: // all there is so far was seen
				continue
			case e.Operation() != jetstream.KeyValuePut:
				return nil, nil
			}
			r, err := readRecord(e.Value())
			if err != nil {
				return nil, unavailable(err)
			}
			if reply, err := s.reply(ctx, r); reply != nil || err != nil {
				return reply, err
			}
			dead.Reset(time.Until(r.Until) + ownerGrace)
		case <-dead.C:
			return unknown("the host that ran this idempotency_key is gone; what became of it is not known"), nil
		case <-ctx.Done():
			return nil, &subjects.Error{Code: subjects.Code(subjects.EntryOutcomeUnknown),
				Message: "another instance of the host still runs this idempotency_key; ask again later"}
		}
	}
}

// reply is a record's answer, nil while it runs.
func (s *keyStore) reply(ctx context.Context, r *keyRecord) (*subjects.HostReply, error) {
	if r.Object == "" {
		return r.Reply, nil
	}
	body, err := s.bodies.Get(ctx, s.tenant, subjects.Ref{Object: r.Object, Digest: r.Digest})
	if errors.Is(err, subjects.ErrBodyNotFound) {
		return forgotten, nil
	}
	if err != nil {
		return nil, unavailable(err)
	}
	reply := new(subjects.HostReply)
	if err := json.Unmarshal(body, reply); err != nil {
		return nil, unavailable(err)
	}
	return reply, nil
}

// settle records the answer of a claimed key. Only its owner writes it, so a repeated write does no harm.
func (s *keyStore) settle(c *claim, reply *subjects.HostReply) error {
	record := c.record
	record.Reply = reply
	value, err := subjects.Marshal(record)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if err = s.write(c.key, value, record, reply); err == nil || try == settleTries {
			return err
		}
	}
}

func (s *keyStore) write(key string, value []byte, record keyRecord, reply *subjects.HostReply) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	if len(value) > inlineReply {
		body, err := subjects.Marshal(reply)
		if err != nil {
			return err
		}
		ref, err := s.bodies.Put(ctx, s.tenant, body)
		if err != nil {
			return err
		}
		record.Reply, record.Object, record.Digest = nil, ref.Object, ref.Digest
		if value, err = subjects.Marshal(record); err != nil {
			return err
		}
	}
	_, err := s.kv.Put(ctx, key, value)
	return err
}

// release gives a claimed key back whose tool was never begun.
func (s *keyStore) release(c *claim) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	s.kv.Delete(ctx, c.key) //nolint:errcheck // a key that stays is answered with OUTCOME_UNKNOWN, which runs nothing
}

func unavailable(err error) *subjects.Error {
	return &subjects.Error{Code: subjects.CodeUnavailable, Err: err,
		Message: "the store of idempotency keys does not answer; nothing was run, try again"}
}
