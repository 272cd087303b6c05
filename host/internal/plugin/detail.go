package plugin

import "fmt"

// Detail is what there is to know of a plugin beyond its Status, and what takes time to find out.
type Detail struct {
	Status
	// SHA256 of the program, in hexadecimal digits; empty for a plugin that is no file or was never read.
	SHA256 string
	// Memory is how many bytes its process and the children of that have in memory; zero without a process.
	Memory uint64
	// Confinement says what keeps the process from what is not its own; empty without a process.
	Confinement string
}

// Details lists all plugins in the order of Status. It reads their programs, which takes a tenth of a second for each. What cannot be
// read is missing, and the error says why.
func (s *Set) Details() ([]Detail, error) {
	var list []Detail
	var failed error
	for _, p := range s.withMissing() {
		d := Detail{Status: p.status()}
		sum, err := p.source.sum()
		if err != nil && failed == nil {
			failed = fmt.Errorf("read plugin %s: %w", p.file, err)
		}
		d.SHA256 = sum
		p.mu.Lock()
		proc := p.process
		p.mu.Unlock()
		if proc != nil {
			d.Memory, d.Confinement = proc.memory(), proc.confinement
		}
		list = append(list, d)
	}
	return list, failed
}
