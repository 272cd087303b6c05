package many

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Requests are the numbers of requests by what they do: the verbs of the API, "dry run" for a write that is not carried out, and "discover".
type Requests map[string]int

// CountRequests counts the requests to the target in an audit log from an offset on: those of a user agent that begins with the prefix.
// Watches are aside.
func CountRequests(auditLog string, offset int64, agentPrefix string) (_ Requests, err error) {
	log, err := os.Open(auditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.Seek(offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	counts := Requests{}
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var entry struct {
			Verb, RequestURI, UserAgent string
			ObjectRef                   struct{ Resource string }
		}
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			return nil, fmt.Errorf("decode audit log: %w", err)
		}
		switch {
		case !strings.HasPrefix(entry.UserAgent, agentPrefix), entry.Verb == "watch":
		case entry.ObjectRef.Resource == "":
			counts["discover"]++
		case strings.Contains(entry.RequestURI, "dryRun="):
			counts["dry run"]++
		default:
			counts[entry.Verb]++
		}
	}
	return counts, scanner.Err()
}

// All is how many requests there are.
func (r Requests) All() (n int) {
	for _, count := range r {
		n += count
	}
	return n
}

// Writes is how many of them write.
func (r Requests) Writes() int {
	return r["create"] + r["update"] + r["patch"] + r["delete"] + r["deletecollection"]
}

// String lists them.
func (r Requests) String() string {
	var texts []string
	for _, verb := range slices.Sorted(maps.Keys(r)) {
		texts = append(texts, fmt.Sprintf("%s %d", verb, r[verb]))
	}
	return fmt.Sprintf("%d requests (%s)", r.All(), strings.Join(texts, ", "))
}
