package output

import "time"

// budget is a token bucket of lines and bytes. It starts full.
type budget struct {
	lineRate, byteRate float64 // a second
	lines, bytes       float64
	at                 time.Time // of the last refill
}

func newBudget(lineRate, byteRate float64) budget {
	return budget{lineRate: lineRate, byteRate: byteRate, lines: capacity(lineRate), bytes: capacity(byteRate)}
}

// capacity is at least one, or nothing would ever pass.
func capacity(rate float64) float64 { return max(burst*rate, 1) }

// take takes a line out of the budget if something is left. Bytes may be owed, so that a long line passes however small the
// budget is.
func (b *budget) take(now time.Time, bytes int) bool {
	if b.exhausted(now) {
		return false
	}
	b.lines--
	b.bytes -= float64(bytes)
	return true
}

func (b *budget) exhausted(now time.Time) bool {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.lines = min(b.lines+passed*b.lineRate, capacity(b.lineRate))
		b.bytes = min(b.bytes+passed*b.byteRate, capacity(b.byteRate))
		b.at = now
	}
	return b.lines < 1 || b.bytes <= 0
}
