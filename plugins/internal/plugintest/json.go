package plugintest

import "pgregory.net/rapid"

// JSON draws values as decoded from JSON, with lists and maps up to a depth.
func JSON(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[a-z]{0,3}`), func(s string) any { return s }),
		rapid.Map(rapid.Int64Range(0, 9), func(n int64) any { return n }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(
		scalar,
		rapid.Map(rapid.SliceOfN(JSON(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-d]`), JSON(depth-1), 0, 3), func(m map[string]any) any { return m }),
	)
}
