package durable

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"toolsearch/dispatch"
	"toolsearch/subjects"
)

// Place is where a job lies.
type Place string

// The places of a job.
const (
	PlaceQueued Place = "queued" // waits or runs
	PlaceDead   Place = "dead"   // was given up
)

// JobInfo is a line of the operator's list.
type JobInfo struct {
	Key        dispatch.CallKey `json:"key"`
	Place      Place            `json:"place"`
	Sequence   uint64           `json:"sequence"`
	At         time.Time        `json:"at"` // stored
	Names      []string         `json:"names,omitempty"`
	Generation int              `json:"generation,omitempty"`
	// Unreadable says that the message is no job that this version can read.
	Unreadable bool `json:"unreadable,omitempty"`
}

// JobList is what [Calls.Jobs] found.
type JobList struct {
	Jobs []JobInfo `json:"jobs"`
	// More says that there are more than were asked for.
	More bool `json:"more,omitempty"`
}

// Jobs lists jobs of a tenant ("" for all), those that were given up first, at most limit of each kind (0: 100).
func (c *Calls) Jobs(ctx context.Context, tenant string, limit int) (*JobList, error) {
	if limit <= 0 {
		limit = 100
	}
	letters, jobs := c.o.Layout.DeadSubject(">"), c.o.Layout.Root.Jobs()
	if tenant != "" {
		letters, jobs = c.o.Layout.DeadSubject(tenant+".>"), c.o.Layout.Root.TenantJobs(tenant)
	}
	out := &JobList{Jobs: []JobInfo{}}
	if err := c.list(ctx, out, c.dead.stream, letters, PlaceDead, limit); err != nil {
		return nil, err
	}
	return out, c.list(ctx, out, c.jobs.stream, jobs, PlaceQueued, limit)
}

// list reads message by message: a consumer over the queue would stand in the way of the tenants' own.
func (c *Calls) list(ctx context.Context, out *JobList, s *stream, subject string, p Place, limit int) error {
	for seq := uint64(1); ; limit-- {
		m, err := s.next(ctx, subject, seq)
		if err != nil || m == nil {
			return err
		}
		if limit == 0 {
			out.More = true
			return nil
		}
		seq = m.Sequence + 1
		info := JobInfo{Place: p, Sequence: m.Sequence, At: m.Time}
		body := m.Data
		if p == PlaceDead {
			var letter dispatch.Letter
			key, _ := parseKey(strings.TrimPrefix(m.Subject, c.o.Layout.DeadSubject("")))
			info.Key = key
			if data, err := c.dead.store.Unpack(ctx, key.Tenant, m.Header, m.Data); err == nil && json.Unmarshal(data, &letter) == nil {
				body = letter.Job
			}
		}
		if job, err := dispatch.DecodeJob(body); err != nil {
			info.Unreadable = true
			if a, err := c.o.Layout.Root.Parse(m.Subject); err == nil && a.Family == subjects.FamilyJob {
				info.Key.Tenant, info.Key.Session = a.Tenant, a.Session
			}
		} else {
			info.Key, info.Names, info.Generation = job.Key, job.Names, job.Generation
		}
		out.Jobs = append(out.Jobs, info)
	}
}

func isNotFound(err error) bool { return errors.Is(err, dispatch.ErrNotFound) }

// CallInfo is what is known of one call.
type CallInfo struct {
	Key dispatch.CallKey `json:"key"`
	// Record is the journal; nil if there is none (any more).
	Record *dispatch.Record `json:"record,omitempty"`
	// RecordError says why a record that is there cannot be read.
	RecordError string `json:"record_error,omitempty"`
	// Dead is the job that was given up; nil if there is none.
	Dead *dispatch.Letter `json:"dead,omitempty"`
}

// Show tells what is known of one call. [dispatch.ErrNotFound] if nothing is.
func (c *Calls) Show(ctx context.Context, k dispatch.CallKey) (*CallInfo, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	info := &CallInfo{Key: k}
	value, _, rerr := c.records.Read(ctx, k)
	if rerr == nil {
		rec, err := dispatch.DecodeRecord(value)
		if info.Record = rec; err != nil {
			info.RecordError = err.Error()
		}
	} else if !isNotFound(rerr) {
		return nil, rerr
	}
	letter, _, derr := c.dead.Exhume(ctx, k)
	if derr == nil {
		info.Dead = &dispatch.Letter{}
		if err := json.Unmarshal(letter, info.Dead); err != nil {
			info.Dead = &dispatch.Letter{Unreadable: letter}
		}
	} else if !isNotFound(derr) {
		return nil, derr
	}
	if isNotFound(rerr) && isNotFound(derr) {
		return nil, dispatch.ErrNotFound
	}
	return info, nil
}

// Retry tries the ABANDONED entries of a call again, under the same keys; see [dispatch.Reopener.Reopen].
func (c *Calls) Retry(ctx context.Context, k dispatch.CallKey) (generation int, err error) {
	if err := k.Validate(); err != nil {
		return 0, err
	}
	return c.reopener.Reopen(ctx, k)
}
