package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"toolsearch/connectors"
	"toolsearch/subjects"
)

func decodeOutcome(p []byte, out *EntryOutcome) error {
	if err := json.Unmarshal(p, out); err != nil {
		return fmt.Errorf("%w: outcome: %w", ErrNotFound, err)
	}
	return nil
}

// result is the outcome as a line of a batch's reply.
func (o *EntryOutcome) result(index int, name string) subjects.EntryResult {
	r := subjects.EntryResult{Index: index, Name: name, Response: o.Response, Error: o.Error, Account: o.Account}
	if r.Error != nil {
		r.Response = nil
	} else if len(r.Response) == 0 {
		r.Response = json.RawMessage("null")
	}
	return r
}

// assembleBatch puts the outcomes of a settled record together.
func assembleBatch(rec *Record, outs []*EntryOutcome) *subjects.BatchReply {
	results := make([]subjects.EntryResult, len(outs))
	for i, out := range outs {
		results[i] = out.result(i, rec.Entries[i].Name)
	}
	return connectors.AssembleResults(len(outs), results)
}

// Reply is the answer to a call that has settled.
type Reply struct {
	Key CallKey
	// Batch has a line for each entry, in input order.
	Batch *subjects.BatchReply
	// Hosted says that the one entry is a hosted tool, whose own result is the answer.
	Hosted bool
}

// hostedError is what a model reads of a hosted tool that did not answer with a result.
type hostedError struct {
	Message string             `json:"error"`
	Code    subjects.EntryCode `json:"code"`
}

// MarshalModel writes the body that a runtime hands to its model: the batch, or the hosted tool's own result, or
// {"error": "<text>", "code": "<entry code>"} where it has none.
func (r *Reply) MarshalModel() ([]byte, error) {
	if !r.Hosted {
		return subjects.MarshalModel(r.Batch)
	}
	if e := r.Batch.Results[0].Error; e != nil {
		return subjects.MarshalModel(hostedError{e.Message, e.Code})
	}
	// The tool's own result, to the byte: it is the tool's, not ours to format.
	return r.Batch.Results[0].Response, nil
}

// MarshalWithin is [Reply.MarshalModel] for a carrier that takes no more than limit bytes: of a batch that is larger the
// largest results, as few as need be, give way to the word that their own events have them. All of them happened, so an
// error would be the wrong answer.
func (r *Reply) MarshalWithin(limit int) ([]byte, error) {
	body, err := r.MarshalModel()
	if err != nil || r.Hosted {
		return body, err
	}
	short := *r.Batch
	short.Results = slices.Clone(short.Results)
	for len(body) > limit {
		largest := 0
		for i := range short.Results {
			if len(short.Results[i].Response) > len(short.Results[largest].Response) {
				largest = i
			}
		}
		elsewhere := subjects.AppendString(nil, textInEvent)
		if len(short.Results[largest].Response) <= len(elsewhere) {
			break // it is not the results that are large
		}
		short.Results[largest].Response = elsewhere
		if body, err = subjects.MarshalModel(&short); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// ReadReply makes the answer of a call from its record and bodies. done is false while the call is open, and then
// there is no answer yet. [ErrNotFound] if there is no record of it.
func ReadReply(ctx context.Context, records Records, bodies Bodies, k CallKey) (reply *Reply, done bool, err error) {
	value, _, err := records.Read(ctx, k)
	if err != nil {
		return nil, false, err
	}
	rec, err := DecodeRecord(value)
	if err != nil {
		// A record that cannot be read is settled by its runner; one of a newer version is a newer worker's to read.
		return nil, false, nil
	}
	if !rec.Published || !rec.settled() {
		return nil, false, nil
	}
	outs := make([]*EntryOutcome, len(rec.Entries))
	for i := range outs {
		if outs[i], err = loadOutcome(ctx, bodies, k.Tenant, &rec.Entries[i]); err != nil {
			return nil, false, err
		}
	}
	return &Reply{Key: k, Batch: assembleBatch(rec, outs), Hosted: rec.Hosted}, true, nil
}
