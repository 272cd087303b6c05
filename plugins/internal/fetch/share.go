package fetch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Memo is the last lookup of a source with certain credentials.
type Memo struct {
	// Fixed is set for an immutable source.
	Fixed bool
	// Manifest is the digest of the source's manifest; another one is a change of the source.
	Manifest string

	// etag and modified are the validators of an address.
	etag, modified string
	// digest of the file, and the time of the lookup.
	digest string
	looked time.Time
}

// LookUp looks up a source. known is the last Memo of it, the zero Memo for none. It returns no file for an unchanged
// source.
type LookUp func(ctx context.Context, known Memo) (Memo, *File, error)

// download is one lookup and fetch of a file for all concurrent callers.
type download struct {
	// waiting counts the waiting callers, and cancel ends the download when there are none.
	waiting int
	cancel  context.CancelFunc
	// done is closed when found and err are set.
	done  chan struct{}
	found *File
	err   error
}

// File returns the file of a source, to be released. It blocks until the file is there or ctx ends. The key, of
// KeyOf, stands for the source and the credentials for it. Concurrent callers with one key share a download: it
// outlasts the ctx of a single caller, and ends with the last. The error is that of find, or the cause of ctx.
func (f *Fetcher) File(ctx context.Context, key string, find LookUp) (*File, error) {
	f.mu.Lock()
	d := f.downloads[key]
	if d == nil {
		d = f.begin(ctx, key, find)
	}
	d.waiting++
	f.mu.Unlock()
	select {
	case <-d.done:
		return d.found, d.err
	case <-ctx.Done():
		f.leave(key, d)
		return nil, context.Cause(ctx)
	}
}

// begin begins a download and the goroutine for it.
func (f *Fetcher) begin(ctx context.Context, key string, find LookUp) *download {
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTime)
	d := &download{cancel: cancel, done: make(chan struct{})}
	f.downloads[key] = d
	go func() {
		defer cancel()
		found, err := f.current(working, key, find)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(key, d)
		if err == nil {
			f.cache.share(found, d.waiting) // each waiting caller is a user of the file now
			f.cache.release(found, 1)
		}
		d.found, d.err = found, err
		close(d.done)
	}()
	return d
}

// leave ends the wait of a caller for a download.
func (f *Fetcher) leave(key string, d *download) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-d.done:
		if d.found != nil {
			f.cache.release(d.found, 1)
		}
		return
	default:
	}
	if d.waiting--; d.waiting == 0 {
		d.cancel()
		f.forget(key, d) // the next caller begins anew
	}
}

func (f *Fetcher) forget(key string, d *download) {
	if f.downloads[key] == d {
		delete(f.downloads, key)
	}
}

// current returns the file of a source, from the cache if no lookup is due. It turns a panic of find into an error
// for its callers; otherwise the process would end.
func (f *Fetcher) current(ctx context.Context, key string, find LookUp) (found *File, err error) {
	var kept *File
	defer func() {
		if p := recover(); p != nil {
			err = Errorf(Panic, "panic: %v", p)
		}
		if kept != nil && found != kept {
			kept.Release()
		}
	}()
	value, _ := f.memos.Get(key)
	known, _ := value.(Memo)
	kept = f.cache.get(known.digest)
	if kept == nil {
		known = Memo{}
	}
	now := f.config.Clock.Now()
	if kept != nil && (known.Fixed || now.Sub(known.looked) < f.config.FreshFor) {
		return kept, nil
	}
	looked, found, err := find(ctx, known)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = kept
	}
	looked.digest, looked.looked = found.Digest, now
	f.memos.Add(key, looked)
	return found, nil
}

// KeyOf returns the key of a source. It does not keep the parts, since they may be credentials.
func KeyOf(parts ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))
}
