package settingsfile

// Targets bounds what each target cluster gets to do. All deploy items of a target share its bounds; one target does not count against
// another.
type Targets struct {
	// RequestsPerSecond is how many requests a target gets in the long run. Defaults to 500: API servers bear that, and share
	// themselves out fairly among those who want more.
	RequestsPerSecond *float64 `json:"requestsPerSecond,omitempty"`
	// Burst is how many it gets at once after it has had none for a while. Defaults to twice RequestsPerSecond, but at least 1.
	Burst *int `json:"burst,omitempty"`
}

// Bounds returns both bounds, with their defaults.
func (t Targets) Bounds() (requestsPerSecond float64, burst int) {
	requestsPerSecond = 500
	if t.RequestsPerSecond != nil {
		requestsPerSecond = *t.RequestsPerSecond
	}
	burst = max(1, int(2*requestsPerSecond))
	if t.Burst != nil {
		burst = *t.Burst
	}
	return requestsPerSecond, burst
}

// CheckTargets reports what is wrong with the field targets.
func (p *Problems) CheckTargets(t Targets) {
	const most = 10_000
	if rate := t.RequestsPerSecond; rate != nil && (*rate <= 0 || *rate > most) {
		p.Add("targets.requestsPerSecond", "expected a number above 0 and not above %d, but found %v", most, *rate)
	}
	if burst := t.Burst; burst != nil && (*burst < 1 || *burst > most) {
		p.Add("targets.burst", "expected a number from 1 to %d, but found %d", most, *burst)
	}
}
