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

// watchVerb is the verb of watches, which are in the log once they have ended.
const watchVerb = "watch"

// kind is what the request does, such as "patch deployitems/status".
func (r request) kind() string {
	switch resource := strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/"); {
	case resource == "":
		return "discover"
	case strings.Contains(r.RequestURI, "dryRun="):
		return r.Verb + " " + resource + ", dry run"
	default:
		return r.Verb + " " + resource
	}
}

// work is the kind of the request, but "" for a watch.
func (r request) work() string {
	if r.Verb == watchVerb {
		return ""
	}
	return r.kind()
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
	return b.count(mark, func(r request) string {
		if r.Verb == watchVerb {
			return ""
		}
		return what(r)
	})
}

// count is countRequests with watches.
func (b *bench) count(mark int64, what func(request) string) (counts map[string]int, err error) {
	log, err := os.Open(b.controlPlane.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.Seek(mark, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	counts = map[string]int{}
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the rest of the line is still to be written, if it has begun
			return counts, nil
		}
		r := request{}
		if err := errors.Join(err, json.Unmarshal(line, &r)); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		if kind := what(r); kind != "" {
			counts[kind]++
		}
	}
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
