package component_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

const (
	shop    = "example.com/shop"
	version = "1.2.3"
)

// refused fails the test unless the error is final and says something that is fit to be shown.
func refused(t *testing.T, err error, says string) {
	t.Helper()
	var found *fetch.Error
	if !errors.As(err, &found) || len(found.Kind.Codes()) == 0 || !strings.Contains(err.Error(), says) {
		t.Fatalf("expected a final error that says %q, but found %v", says, err)
	}
	if text := err.Error(); len(text) > 4000 || strings.ContainsAny(text, "\x1b\n") || strings.Contains(text, "hunter2") {
		t.Errorf("the message %q is not fit to be shown", text)
	}
}

// check fails the test unless the error is nil and what was found is wanted, or the error says something, see refused.
func check[T any](t *testing.T, want, found T, err error, says string) {
	t.Helper()
	if says != "" {
		refused(t, err, says)
	} else if diff := gocmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("found error %v and -want +found:\n%s", err, diff)
	}
}

// helper is what can fail a test.
type helper interface {
	Helper()
	Fatal(args ...any)
}

func must(t helper, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// numbered are so many texts with a number in each.
func numbered(n int, format string) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(format, i)
	}
	return texts
}

// object is JSON that is written by hand.
type object map[string]any

func (o object) json(t helper) []byte {
	t.Helper()
	document, err := json.Marshal(o)
	must(t, err)
	return document
}

// file is an entry of a tar, a regular file unless the header says otherwise.
type file struct {
	name    string
	content []byte
	header  tar.Header
}

func tarOf(t helper, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		header := f.header
		header.Name, header.Size = f.name, int64(len(f.content))
		must(t, w.WriteHeader(&header))
		_, err := w.Write(f.content)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func zipped(t helper, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(content)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// blob refers to content of a media type.
func blob(mediaType string, content []byte) object {
	return object{"mediaType": mediaType, "digest": digest.FromBytes(content), "size": len(content)}
}

// sparse is a tar with a file of a terabyte, of which nothing is in it.
func sparse(t helper, name string) []byte {
	t.Helper()
	const typeAt, sumAt = 156, 148
	stream := tarOf(t, file{name: "records", content: []byte("22 GNU.sparse.major=0\n22 GNU.sparse.minor=1\n" +
		"33 GNU.sparse.size=1099511627776\n26 GNU.sparse.numblocks=1\n22 GNU.sparse.map=0,0\n")}, file{name: name})
	stream[typeAt] = tar.TypeXHeader
	copy(stream[sumAt:], "        ") // as it counts towards the sum
	sum := 0
	for _, c := range stream[:512] {
		sum += int(c)
	}
	copy(stream[sumAt:], fmt.Sprintf("%06o\x00 ", sum))
	return stream
}
