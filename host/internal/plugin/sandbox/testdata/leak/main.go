// Command leak uses more and more memory, for ever.
package main

func main() {
	var kept [][]byte
	for {
		block := make([]byte, 16<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1 // else it is not resident
		}
		kept = append(kept, block)
	}
}
