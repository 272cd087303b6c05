package httphook

import (
	"fmt"
	"regexp"
	"time"

	"github.com/sosodev/duration"
)

// timeoutPattern bounds what the parser gets: it takes digits of any script, and any order. That of the CRD means the same.
var timeoutPattern = regexp.MustCompile(`^PT([0-9]+([.][0-9]+)?H)?([0-9]+([.][0-9]+)?M)?([0-9]+([.][0-9]+)?S)?$`)

// ParseTimeout reads an ISO 8601 duration of hours, minutes and seconds, above zero and at most MaxTimeout. Empty stands for
// DefaultTimeout. The error says what was expected and found.
func ParseTimeout(text string) (time.Duration, error) {
	if text == "" {
		return DefaultTimeout, nil
	}
	refused := func(why string) error {
		return fmt.Errorf("expected an ISO 8601 duration of hours, minutes and seconds, above zero and at most PT10M, such as PT15S, but found %s: %s", quoted(text), why)
	}
	if len(text) > 32 || !timeoutPattern.MatchString(text) {
		return 0, refused("it has another form")
	}
	parsed, err := duration.Parse(text)
	if err != nil {
		return 0, refused(err.Error())
	}
	// As a float first: a number that is too large for a time.Duration has no defined value as one.
	if seconds := parsed.Hours*3600 + parsed.Minutes*60 + parsed.Seconds; seconds > MaxTimeout.Seconds() {
		return 0, refused("it is longer")
	}
	timeout := parsed.ToTimeDuration()
	if timeout <= 0 {
		return 0, refused("it is not above zero")
	}
	return timeout, nil
}
