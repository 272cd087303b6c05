package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "3600": time.Minute, "9999999999999": time.Minute, "-3": 0,
		"Wed, 21 Oct 2026 07:28:00 GMT": 0, // the API server writes no dates
	} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: expected %s, but found %s", header, want, got)
		}
	}
}

// The pauses grow with the attempts for one Secret, are as long as the API server asks for, and begin anew with the
// next Secret.
func TestPausesOfAttempts(t *testing.T) {
	t.Parallel()
	count := 0
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count++
		switch count {
		case 3:
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		case 12, 14:
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer fake.Close()
	s, pauses := restless(t, fake.URL, "", fake.Client())
	for _, name := range []string{"a", "b"} {
		must(t, s.apply("ns", newSecret(name, nil, nil, nil)))
	}
	const most = 30 * time.Second
	want := []time.Duration{
		500 * time.Millisecond, time.Second, 20 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, most,
		most, most, most, most,
		500 * time.Millisecond,
	}
	if !slices.Equal(*pauses, want) {
		t.Errorf("expected %v, but found %v", want, *pauses)
	}
}

// restless is an API server whose user does not sleep, and the pauses that it would have slept.
func restless(t *testing.T, address, token string, client *http.Client) (s *server, pauses *[]time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	pauses = &[]time.Duration{}
	return &server{
		address: address, tokenFile: file, client: client, log: slog.New(slog.DiscardHandler),
		sleep: func(d time.Duration) { *pauses = append(*pauses, d) }, random: func() float64 { return 0 },
	}, pauses
}

// What is forbidden may be allowed soon, but not for ever. Other trouble meanwhile does not count.
func TestForbiddenForAWhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		codes  []int // answered in this order, the last one for ever
		pauses int
		fails  bool
	}{
		{"it is allowed soon", []int{403, 403, 200}, 2, false},
		{"it stays forbidden", []int{403}, 7, true}, // after 63.5 s
		{"the API server is away first", []int{500, 500, 500, 500, 500, 500, 500, 403}, 7 + 2, true},
		{"and in between", []int{403, 403, 500, 500, 500, 500, 200}, 6, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			count := 0
			fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				answer(w, c.codes[min(count, len(c.codes)-1)], "told by\nthe server\n s")
				count++
			}))
			defer fake.Close()
			s, pauses := restless(t, fake.URL, "", fake.Client())
			err := s.apply("ns", newSecret("a", nil, nil, nil))
			if len(*pauses) != c.pauses || (err != nil) != c.fails {
				t.Errorf("found the error %v after the pauses %v", err, *pauses)
			}
			const says = "Secret ns/a: the API server answers 403 (Forbidden): told by the server s; allow the " +
				"run's ServiceAccount to create and patch it"
			if c.fails && !strings.Contains(err.Error(), says) {
				t.Errorf("expected %q in %q", says, err)
			}
		})
	}
}

// An API server that cannot be reached is found before main begins, with a few attempts, since the network of a Pod may
// need some seconds.
// Rule (container.md#jobs-and-errors): An image does not run in a Pod without a way to the API server.
func TestReach(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	trust := server.Client().Transport.(*http.Transport).TLSClientConfig
	nobody, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, nobody.Close())
	for _, c := range []struct {
		reason, address string
		trust           *tls.Config
		comesLate       bool
		pauses          int
		want            string
	}{
		{"it is there", server.URL, trust, false, 0, ""},
		{"it comes late", "https://" + nobody.Addr().String(), trust, true, 1, ""},
		{"nobody answers", "https://" + nobody.Addr().String(), trust, false, 5, "connection refused"},
		{"it might be anybody", server.URL, &tls.Config{MinVersion: tls.VersionTLS12}, false, 5, "certificate"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			s, pauses := restless(t, c.address, "", nil)
			s.tls = c.trust
			if sleep := s.sleep; c.comesLate {
				s.sleep = func(d time.Duration) { sleep(d); s.address = server.URL }
			}
			err := s.reach()
			if len(*pauses) != c.pauses || (err == nil) != (c.want == "") {
				t.Fatalf("found the error %v after the pauses %v", err, *pauses)
			}
			if err != nil && (!errors.Is(err, errUnreachable) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("expected %q in %q", c.want, err)
			}
		})
	}
}
