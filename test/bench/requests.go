package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// request is an entry of the audit log.
type request struct {
	Verb, RequestURI, UserAgent string
	User                        struct{ Username string }
	ObjectRef                   struct{ Resource, Subresource string }
}

// auditMark is where the audit log ends now.
func (b *bench) auditMark() (int64, error) {
	log, err := os.Stat(b.controlPlane.AuditLog)
	if err != nil {
		return 0, fmt.Errorf("find audit log: %w", err)
	}
	return log.Size(), nil
}

// countRequests counts the requests since a mark by what they are for; those for "" do not count, and neither do
// watches.
func (b *bench) countRequests(mark int64, what func(request) string) (counts map[string]int, err error) {
	log, err := os.Open(b.controlPlane.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.Seek(mark, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	counts = map[string]int{}
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		r := request{}
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("decode audit log: %w", err)
		}
		if kind := what(r); kind != "" && r.Verb != "watch" {
			counts[kind]++
		}
	}
	return counts, scanner.Err()
}

// ofAgent tells of the requests of a user agent that begins with a prefix what they do: the verbs of the API, "dry
// run" for a write that is not carried out, and "discover".
func ofAgent(prefix string) func(request) string {
	return func(r request) string {
		switch {
		case !strings.HasPrefix(r.UserAgent, prefix):
			return ""
		case r.ObjectRef.Resource == "":
			return "discover"
		case strings.Contains(r.RequestURI, "dryRun="):
			return "dry run"
		}
		return r.Verb
	}
}

// sum is how many requests there are.
func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
