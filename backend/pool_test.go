package backend

import "testing"

// TestPoolTokens: without groups a pool holds its slots, and with them as many sequences of the greatest length as their windows let it.
func TestPoolTokens(t *testing.T) {
	s := Spec{BlockTokens: 16, NumBlocks: 1 + 640, MaxTokens: 32, MaxSeqTokens: 1000}
	if n := s.PoolTokens(); n != 640*16 {
		t.Errorf("%d tokens without groups", n)
	}
	s.Groups = []KVGroup{{}, {}}
	if n := s.PoolTokens(); n != 640*1000/(2*63) {
		t.Errorf("%d tokens in two groups that see all", n)
	}
	s.Groups[1].Window = 64
	windowed := s.PoolTokens()
	if each := s.SequenceBlocks(1000); each >= 2*63 || windowed != 640*1000/each || windowed <= 640*16/2 {
		t.Errorf("%d tokens with a window, whose sequences have %d blocks", windowed, each)
	}
}
