package durable

import (
	"context"
	"errors"
	"fmt"

	"toolsearch/dispatch"
	"toolsearch/subjects"
)

// bodies keeps what is too big for a record or a job in the tenant's body store, under its digest: a repeated call or
// a successor that stores the same bytes again stores them once.
type bodies struct{ store *subjects.Bodies }

var _ dispatch.Bodies = bodies{}

func (b bodies) Put(ctx context.Context, tenant string, body []byte) (dispatch.BodyRef, error) {
	ref, err := b.store.PutDigest(ctx, tenant, body)
	if err != nil {
		return dispatch.BodyRef{}, known(err)
	}
	return dispatch.BodyRef{Object: ref.Object, Digest: ref.Digest}, nil
}

func (b bodies) Get(ctx context.Context, tenant string, ref dispatch.BodyRef) ([]byte, error) {
	body, err := b.store.Get(ctx, tenant, subjects.Ref{Object: ref.Object, Digest: ref.Digest})
	if errors.Is(err, subjects.ErrBodyNotFound) || errors.Is(err, subjects.ErrBodyDigest) {
		return nil, fmt.Errorf("%w: %w", dispatch.ErrNotFound, err)
	}
	return body, known(err)
}
