// Package storage is what the system keeps in JetStream: every stream and bucket declared in one place, and the
// content-addressed stores of catalogs and scopes.
//
// It knows nothing of requests, sessions or caches; package worker has those. What a call keeps is declared here
// (calls.go) and used by worker/durable.
//
//	layout := storage.Layout{Root: subjects.DefaultRoot}
//	if err := storage.Ensure(ctx, js, layout); err != nil {
//		return err
//	}
//	catalogs, err := storage.NewCatalogs(js, layout)
//	if err != nil {
//		return err
//	}
//	at, err := catalogs.Put(ctx, digest, tools)
//	...
//	blob, err := catalogs.Get(ctx, digest)
//
// What holds:
//   - A blob is named by the SHA-256 of its bytes, and no read returns bytes that do not match their name: it is a
//     [DigestError] instead, and the damaged blob is removed, so that the next Put writes the bytes again.
//   - A blob lives [Layout.BlobAge] from its last Put. Stat and Get tell when that was; nothing is renewed in place,
//     since a renewed description would outlive the chunks it describes.
//   - What is missing is [ErrNotFound], and only after the leader of the stream has said so: a replica may lag. A blob
//     whose chunks are not all there counts as missing. Everything else that fails is storage out of reach.
//   - No step of a read waits longer than [Layout.ReadTimeout].
//   - [Ensure] is idempotent, keeps what an operator set and the layout does not declare, and names what it cannot
//     change.
package storage
