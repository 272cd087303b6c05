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
	ResponseStatus              struct{ Code int }
}

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

// column is the one of the tables for those who have sent the request; empty if they have none.
func (r request) column() string {
	switch {
	case strings.HasPrefix(r.UserAgent, "pergola-host"):
		return hostColumn
	case strings.HasPrefix(r.UserAgent, "pergola-"):
		return pluginColumn
	}
	return ""
}

// auditMark is where the audit log ends now.
func (b *bench) auditMark() (int64, error) {
	log, err := os.Stat(b.controlPlane.AuditLog)
	if err != nil {
		return 0, fmt.Errorf("find audit log: %w", err)
	}
	return log.Size(), nil
}

// watchVerb is the verb of watches, which are in the log once they have ended.
const watchVerb = "watch"

// countRequests counts the requests since a mark by what they are for; those for the zero value do not count.
func countRequests[T comparable](b *bench, mark int64, what func(request) T) (counts map[T]int, err error) {
	log, err := os.Open(b.controlPlane.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.Seek(mark, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	var none T
	counts = map[T]int{}
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the rest of the line is still to be written, if it has begun
			return counts, nil
		}
		r := request{}
		if err := errors.Join(err, json.Unmarshal(line, &r)); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		if of := what(r); of != none {
			counts[of]++
		}
	}
}

// ofAgent tells of the requests of a user agent that begins with a prefix what they do: the verbs of the API, "dry
// run" for a write that is not carried out, and "discover". Watches do not count.
func ofAgent(prefix string) func(request) string {
	return func(r request) string {
		switch {
		case !strings.HasPrefix(r.UserAgent, prefix) || r.Verb == watchVerb:
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
func sum[T comparable](counts map[T]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
