package continuousreconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a zone means the same in each image, also in one that holds nothing but the plugin

	"github.com/robfig/cron/v3"
)

const (
	// minInterval is the shortest interval: the start of a job is kept in seconds.
	minInterval = time.Second
	// horizonYears is how far ahead the library looks.
	horizonYears = 5
	// maxLength of a field in bytes. No sensible schedule comes near it.
	maxLength = 256

	fieldEvery = "every"
	fieldCron  = "cron"

	expectedEvery = "expected a duration of at least 1s, such as 30m or 1h30m"
	expectedCron  = `expected five cron fields such as "0 8 * * *", or a word such as @daily, ` +
		`after a zone such as CRON_TZ=Europe/Berlin if it is not UTC`
)

// FieldError is an error in a schedule.
type FieldError struct {
	// Field is "every" or "cron"; empty if they are wrong together.
	Field string
	// Value is the text of the field, cut if it is long; empty without a Field.
	Value string
	// Detail names the expected value, and the difference from it.
	Detail string
}

// Error names the field, its text and the expected one.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Detail
	}
	return fmt.Sprintf("%s: found %q: %s", e.Field, e.Value, e.Detail)
}

// Schedule tells when something is due. The zero value is never due. It may be used from several goroutines.
type Schedule struct {
	// next returns the first time later than after; the zero time for none.
	next func(after time.Time) time.Time
}

// Next returns the first time later than after; nil for never. A cron schedule without a time within five years, such
// as one for February 30, counts as never.
func (s Schedule) Next(after time.Time) *time.Time {
	if s.next == nil {
		return nil
	}
	next := s.next(after)
	if next.IsZero() {
		return nil
	}
	return &next
}

// Parse reads the two fields of a schedule, with at most one of them set; without any the schedule is never due. An
// error is a *FieldError.
//
// every is an interval as time.ParseDuration reads it, of at least a second; it counts from the argument of Next.
//
// cron has five fields, for minute, hour, day of month, month and day of week, or is one of @yearly, @annually,
// @monthly, @weekly, @daily, @midnight, @hourly, and @every with an interval. A zone may come first, as in
// "CRON_TZ=Europe/Berlin 0 8 * * *" or with TZ instead; without one the times are in UTC. A local time left out by a
// change of clocks does not come on that day, and a repeated one is due twice. Note that "* */1 * * *" is each minute
// of each hour: "0 */1 * * *" is once an hour.
func Parse(every, cron string) (Schedule, error) {
	switch {
	case every != "" && cron != "":
		return Schedule{}, &FieldError{Detail: "expected one of every and cron, but found both"}
	case every != "":
		interval, err := parseInterval(every)
		if err != nil {
			return Schedule{}, newFieldError(fieldEvery, every, expectedEvery, err)
		}
		return interval, nil
	case cron != "":
		schedule, err := parseCron(cron)
		if err != nil {
			return Schedule{}, newFieldError(fieldCron, cron, expectedCron, err)
		}
		return schedule, nil
	default:
		return Schedule{}, nil
	}
}

func newFieldError(field, value, expected string, cause error) *FieldError {
	if len(value) > maxLength {
		value = strings.ToValidUTF8(value[:maxLength], "") + "…"
	}
	return &FieldError{Field: field, Value: value, Detail: fmt.Sprintf("%s; %v", expected, cause)}
}

func parseInterval(text string) (Schedule, error) {
	if err := checkLength(text); err != nil {
		return Schedule{}, err
	}
	interval, err := time.ParseDuration(text)
	if err != nil {
		return Schedule{}, errors.New("this is no duration")
	}
	if interval < minInterval {
		return Schedule{}, errors.New("this is shorter than one second")
	}
	return Schedule{next: func(after time.Time) time.Time { return after.Add(interval) }}, nil
}

// parseCron reads the zone and the intervals itself: the library panics over zones without a space after them, takes
// intervals below a second, and has the zone of the machine as default.
func parseCron(text string) (Schedule, error) {
	if err := checkLength(text); err != nil {
		return Schedule{}, err
	}
	fields := strings.Fields(text)
	location := time.UTC
	if len(fields) > 0 && hasZone(fields[0]) {
		var err error
		if location, err = parseZone(fields[0]); err != nil {
			return Schedule{}, err
		}
		fields = fields[1:]
	}
	if len(fields) == 2 && fields[0] == "@every" {
		interval, err := parseInterval(fields[1])
		if err != nil {
			return Schedule{}, fmt.Errorf("the interval of @every: %w", err)
		}
		return interval, nil
	}
	schedule, err := parseStandard(fields)
	if err != nil {
		return Schedule{}, err
	}
	if schedule.Next(leapYear).IsZero() {
		return Schedule{}, errors.New("this is never due: no year has such a day")
	}
	return Schedule{next: func(after time.Time) time.Time { return nextIn(location, schedule, after) }}, nil
}

// leapYear has each day that a year can have.
var leapYear = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// nextIn looks for the next time between one change of the zone's clocks and the next, where the library is exact.
// Across them it skips times, and it never returns where a zone has left out a whole day, as Samoa's has.
func nextIn(location *time.Location, schedule cron.Schedule, after time.Time) time.Time {
	horizon := after.AddDate(horizonYears, 0, 0)
	for period, from := after.In(location), after; period.Before(horizon); {
		next := schedule.Next(from.In(time.FixedZone(period.Zone())))
		_, end := period.ZoneBounds()
		if next.IsZero() || end.IsZero() || next.Before(end) {
			return next
		}
		period, from = end, end.Add(-time.Nanosecond)
	}
	return time.Time{}
}

func checkLength(text string) error {
	if len(text) > maxLength {
		return fmt.Errorf("this is longer than %d bytes", maxLength)
	}
	return nil
}

func hasZone(field string) bool {
	return strings.HasPrefix(field, "TZ=") || strings.HasPrefix(field, "CRON_TZ=")
}

func parseZone(field string) (*time.Location, error) {
	_, name, _ := strings.Cut(field, "=")
	// Go knows both names, but the one names nothing, and the zone of the other differs from machine to machine.
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q names no zone", field)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("the zone %q is not known", name)
	}
	return location, nil
}

// parseStandard refuses texts that the library would panic over or misread, and has it parse the others.
func parseStandard(fields []string) (cron.Schedule, error) {
	for _, field := range fields {
		if hasZone(field) {
			return nil, errors.New("a zone comes first, and only once")
		}
		if slices.Contains(strings.Split(field, ","), "") {
			return nil, fmt.Errorf("the list %q has an empty entry", field)
		}
	}
	if len(fields) > 0 && fields[0] == "@every" {
		return nil, errors.New("@every needs one interval")
	}
	return cron.ParseStandard(strings.Join(fields, " "))
}
