// Package zoneapi has an HTTP API for DNS records in memory, for the example and its tests. It works asynchronously,
// and is as slow and unreliable as its Faults say.
//
//	PUT    /records/ID       creates or replaces a record with an ID of the client: 202 with an operation
//	GET    /records/ID       200 with the record, or 404
//	DELETE /records/ID       202 with an operation, or 404
//	GET    /operations/ID    200 with its state: running, done, failed or canceled; or 404
//	DELETE /operations/ID    cancels it: 204, or 404
package zoneapi

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Record is a DNS record.
type Record struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	TTLSeconds int      `json:"ttlSeconds"`
	Values     []string `json:"values"`
	// Published: the name servers have it. The server sets it.
	Published bool `json:"published"`
}

// Operation is a change at work.
type Operation struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Message says why it has failed.
	Message string `json:"message,omitempty"`

	record string
	remove bool
	looks  int
}

// The states of an operation.
const (
	running  = "running"
	done     = "done"
	failed   = "failed"
	canceled = "canceled"
)

// Faults are the troubles of the API. The zero value has none.
type Faults struct {
	// Delay of each answer.
	Delay time.Duration
	// Each n-th write is throttled, each n-th request fails, and each n-th operation; zero for none.
	ThrottleEach, FailEach, BreakEach int
	// Looks is how often an operation is seen running before it is done.
	Looks int
}

// Server is the API.
type Server struct {
	token string

	mu                 sync.Mutex
	faults             Faults
	calls              []string
	records            map[string]*Record
	operations         map[string]*Operation
	operationOfRecords map[string]string
	// requests, writes and operations so far.
	requests, writes, started int
}

// New returns an empty zone for clients with the token.
func New(token string, faults Faults) *Server {
	return &Server{
		token: token, faults: faults,
		records: map[string]*Record{}, operations: map[string]*Operation{}, operationOfRecords: map[string]string{},
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(s.delay())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if r.Method != http.MethodGet {
		s.writes++
	}
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.Error(w, "wrong token", http.StatusUnauthorized)
	case r.Method != http.MethodGet && each(s.writes, s.faults.ThrottleEach):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case each(s.requests, s.faults.FailEach):
		http.Error(w, "out of order", http.StatusInternalServerError)
	case kind == "records":
		s.serveRecord(w, r, id)
	case kind == "operations":
		s.serveOperation(w, r, id)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.Delay
}

func each(count, n int) bool { return n > 0 && count%n == 0 }

func (s *Server) serveRecord(w http.ResponseWriter, r *http.Request, id string) {
	record := s.records[id]
	switch {
	case r.Method == http.MethodPut:
		wanted := &Record{}
		if err := json.NewDecoder(r.Body).Decode(wanted); err != nil || wanted.Name == "" {
			http.Error(w, "expected a record with a name", http.StatusBadRequest)
			return
		}
		wanted.Published = false
		s.records[id] = wanted
		reply(w, http.StatusAccepted, s.start(id, false))
	case record == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodGet:
		reply(w, http.StatusOK, record)
	case r.Method == http.MethodDelete:
		reply(w, http.StatusAccepted, s.start(id, true))
	default:
		http.Error(w, "unknown method", http.StatusMethodNotAllowed)
	}
}

// start starts an operation. It takes the place of the one at work on the record, unless both are removals.
func (s *Server) start(record string, remove bool) *Operation {
	if before := s.operations[s.operationOfRecords[record]]; before != nil && before.State == running {
		if before.remove && remove {
			return before
		}
		before.State = canceled
	}
	s.started++
	operation := &Operation{ID: fmt.Sprintf("op-%d", s.started), State: running, record: record, remove: remove}
	if each(s.started, s.faults.BreakEach) {
		operation.Message = "a name server was restarted"
	}
	s.operations[operation.ID], s.operationOfRecords[record] = operation, operation.ID
	return operation
}

func (s *Server) serveOperation(w http.ResponseWriter, r *http.Request, id string) {
	operation := s.operations[id]
	switch {
	case operation == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		if operation.State == running {
			operation.State = canceled
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		s.look(operation)
		reply(w, http.StatusOK, operation)
	}
}

// look moves an operation on. Looks count instead of time, so that a test does not depend on its speed.
func (s *Server) look(operation *Operation) {
	operation.looks++
	switch {
	case operation.State != running || operation.looks <= s.faults.Looks:
	case operation.Message != "":
		operation.State = failed
	case operation.remove:
		operation.State = done
		delete(s.records, operation.record)
	default:
		operation.State = done
		s.records[operation.record].Published = true
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// Records returns the records by their names, each with its ID first.
func (s *Server) Records() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(s.records)) {
		found[s.records[id].Name] = append(found[s.records[id].Name], id)
	}
	return found
}

// Record returns a copy of a record; an empty one for none.
func (s *Server) Record(id string) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *cmp.Or(s.records[id], &Record{})
}

// Meddle changes a record behind the back of its client.
func (s *Server) Meddle(id string, change func(*Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.records[id])
}

// SetFaults replaces the faults.
func (s *Server) SetFaults(faults Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// Calls returns the requests since the last time it was called.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}
