package objects

import "golang.org/x/sync/errgroup"

// concurrency bounds the objects worked on at once, per call.
const concurrency = 8

// Each calls a function for all items, several at once, and returns its results in the order of the items.
func Each[I, R any](items []I, do func(I) R) []R {
	results := make([]R, len(items))
	var workers errgroup.Group
	workers.SetLimit(concurrency)
	for i, item := range items {
		workers.Go(func() error {
			results[i] = do(item)
			return nil
		})
	}
	_ = workers.Wait() // the errors are in the results
	return results
}
