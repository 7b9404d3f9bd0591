package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"os"
	"sync"
)

// hashedFile is a file of known size that is hashed while it is written, block by block, as long as a block's parts come from
// front to back: what was just written is still in the cache, and a large file need not be read again, perhaps from the disk.
// Several goroutines may write different places.
type hashedFile struct {
	*os.File
	size   int64
	mu     sync.Mutex
	blocks []blockSum
}

// blockSum is the checksum of one block, so far.
type blockSum struct {
	done    int64 // bytes of the block, from its beginning, that are in hash
	hash    hash.Hash
	busy    bool // hash is being fed
	spoiled bool // bytes in hash have been written again
}

func newHashedFile(f *os.File, size int64) *hashedFile {
	return &hashedFile{File: f, size: size, blocks: make([]blockSum, blocksOf(size))}
}

// blocksOf is how many blocks a file of so many bytes, at least 1, has.
func blocksOf(size int64) int64 { return (size-1)/BlockBytes + 1 }

// WriteAt writes part, none of which lies behind the file's end.
func (f *hashedFile) WriteAt(part []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(part, at)
	if err != nil {
		return n, err
	}

	for len(part) > 0 {
		block := at / BlockBytes
		length := min(int64(len(part)), (block+1)*BlockBytes-at)
		if f.add(&f.blocks[block], at-block*BlockBytes, part[:length], f.blockBytes(block)) {
			startWriteback(f.File, block*BlockBytes, f.blockBytes(block))
		}
		part = part[length:]
		at += length
	}
	return n, nil
}

func (f *hashedFile) blockBytes(block int64) int64 { return min(BlockBytes, f.size-block*BlockBytes) }

// add feeds the hash of a block of size bytes with what was written at offset at of it, if that is what comes next, and reports
// whether the block is complete now.
func (f *hashedFile) add(b *blockSum, at int64, part []byte, size int64) bool {
	f.mu.Lock()

	b.spoiled = b.spoiled || at < b.done
	if at != b.done || b.busy || b.spoiled {
		f.mu.Unlock()
		return false
	}

	// Hash without the lock; busy keeps others away from the block.
	b.busy = true
	if b.hash == nil {
		b.hash = sha256.New()
	}
	f.mu.Unlock()
	b.hash.Write(part)

	f.mu.Lock()
	defer f.mu.Unlock()
	b.busy = false
	b.done += int64(len(part))
	return b.done == size
}

// sums are the blocks' checksums in hexadecimal; empty where a block must be read again.
func (f *hashedFile) sums() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, len(f.blocks))
	for i := range f.blocks {
		if b := &f.blocks[i]; b.done == f.blockBytes(int64(i)) && !b.spoiled {
			out[i] = hex.EncodeToString(b.hash.Sum(nil))
		}
	}
	return out
}
