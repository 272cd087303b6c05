package plugin

// Detail is what there is to know of a plugin beyond its Status.
type Detail struct {
	Status
	// SHA256 of the program, in hexadecimal digits; empty for a plugin that is no file or was never read.
	SHA256 string
	// Memory is how many bytes its process and the children of that have in memory; zero without a process.
	Memory uint64
	// Confinement says what keeps the process from what is not its own; empty without a process.
	Confinement string
}

// Details lists all plugins in the order of Status.
func (s *Set) Details() []Detail {
	var list []Detail
	for _, p := range s.withMissing() {
		d := Detail{Status: p.status(), SHA256: p.source.sum()}
		p.mu.Lock()
		proc := p.process
		p.mu.Unlock()
		if proc != nil {
			d.Memory, d.Confinement = proc.memory(), proc.confinement
		}
		list = append(list, d)
	}
	return list
}
