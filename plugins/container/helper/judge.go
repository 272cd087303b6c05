package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// temporaryError is why an attempt has failed, when another one may succeed.
type temporaryError struct {
	reason string
	// after is how long the API server wants to be left alone.
	after time.Duration
	// refusal is the error if no attempt succeeds for a while; nil if none ever is one too many.
	refusal error
}

func (e *temporaryError) Error() string { return e.reason }

// judge tells what becomes of an answer that is none of success: a *temporaryError, or a refusal for the user. What is forbidden may be allowed
// soon: one of several API servers may not have heard of the run's Role so far, and a quota has room again when others are gone.
func judge(response *http.Response, answer []byte) error {
	found := fmt.Sprintf("the API server answers %d (%s)", response.StatusCode, http.StatusText(response.StatusCode))
	switch code := response.StatusCode; {
	case code >= 500,
		code == http.StatusUnauthorized, // the token is being replaced
		code == http.StatusRequestTimeout,
		code == http.StatusConflict, // somebody counts a quota, or writes, at the same time
		code == http.StatusTooManyRequests:
		return &temporaryError{reason: found, after: retryAfter(response.Header.Get("Retry-After"))}
	case code == http.StatusForbidden:
		refusal := fmt.Errorf("%s%s; see to it that the run's ServiceAccount may create and patch it and that no quota or policy forbids it", found, because(answer))
		return &temporaryError{reason: found, after: retryAfter(response.Header.Get("Retry-After")), refusal: refusal}
	case code == http.StatusNotFound:
		return fmt.Errorf("%s; see to it that its namespace exists", found)
	case code == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%s; have the image leave less", found)
	default:
		return fmt.Errorf("%s; ask whoever operates the deployer to look for it in the API server's log", found)
	}
}

// because is what the API server says of a request that is forbidden. Only then it speaks of names and rights; otherwise it may quote what
// was written.
func because(answer []byte) string {
	const enough = 500
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		return ""
	}
	text := strings.Join(strings.FieldsFunc(status.Message, isBlank), " ")
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return ": " + text
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// longestAfter bounds how long the API server can have itself left alone.
const longestAfter = time.Minute

// retryAfter reads the header, which the API server writes in seconds.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longestAfter/time.Second))) * time.Second
}

const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// mostRefused is how long a refusal that may pass is put up with. The Pod has less than five minutes left when main has ended.
	mostRefused = time.Minute
)

// pause is how long to wait after an attempt, the first of which is 0. It doubles each time, and luck (from 0 to 1) makes it up to twice as
// short, so that not all try at once. Nobody comes back sooner than he is told.
func pause(attempt int, luck float64, after time.Duration) time.Duration {
	longest := min(firstPause<<min(attempt, 10), longestPause)
	return max(longest-time.Duration(luck*float64(longest/2)), after)
}
