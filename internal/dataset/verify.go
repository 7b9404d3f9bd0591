package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// BlockBytes is the size of the block that one checksum covers.
const BlockBytes = 8 << 20

// FileInfo is one file of a dataset with its checksums.
type FileInfo struct {
	Name   string   `json:"name"`   // in the dataset's folder, with '/'
	Bytes  int64    `json:"bytes"`  //
	Blocks []string `json:"blocks"` // hexadecimal SHA-256 of each block; the last block may be shorter
}

// check checks that the file has contents, and a checksum for each block of them.
func (f FileInfo) check() error {
	if f.Bytes < 1 || int64(len(f.Blocks)) != blocksOf(f.Bytes) {
		return fmt.Errorf("%d bytes with %d blocks", f.Bytes, len(f.Blocks))
	}
	for i, b := range f.Blocks {
		if len(b) != 2*sha256.Size || strings.Trim(b, "0123456789abcdef") != "" {
			return fmt.Errorf("block %d: %.70q is not a SHA-256", i, b)
		}
	}
	return nil
}

// Block returns where block i begins in the file, and its length in bytes.
func (f FileInfo) Block(i int) (offset, length int64) {
	offset = int64(i) * BlockBytes
	return offset, min(BlockBytes, f.Bytes-offset)
}

// VerifyBlock compares data with the checksum of block i, so that a copy can be verified block by block before it is
// written. If data is anything else, the error is a *CorruptError.
func (f FileInfo) VerifyBlock(i int, data []byte) error {
	if i < 0 || i >= len(f.Blocks) {
		return &CorruptError{f.Name, int64(i) * BlockBytes, int64(i)*BlockBytes + int64(len(data)),
			"the file has no such block"}
	}
	offset, length := f.Block(i)
	if int64(len(data)) != length {
		return &CorruptError{f.Name, offset, offset + length, fmt.Sprintf("%d bytes arrived", len(data))}
	}
	sum := sha256.Sum256(data)
	if hex.EncodeToString(sum[:]) != f.Blocks[i] {
		return &CorruptError{f.Name, offset, offset + length, "the contents differ from the manifest's checksum"}
	}
	return nil
}

// Check opens the dataset in folder dir, verifies all its contents (Verify), and closes it again. The manifest is nil
// if it cannot be opened.
func Check(ctx context.Context, dir string, progress func(done, total int64)) (*Manifest, error) {
	d, err := Open(dir)
	if err != nil {
		return nil, err
	}
	return d.Manifest, errors.Join(d.Verify(ctx, progress), d.Close())
}

// Verify compares the contents of all files on disk with the checksums of the manifest, using all CPUs. progress, which
// may be nil, is called from several goroutines with the number of bytes checked so far and the total. The error is a
// *CorruptError if contents are wrong.
func (d *Dataset) Verify(ctx context.Context, progress func(done, total int64)) error {
	place := func(f FileInfo) string { return filepath.Join(d.dir, filepath.FromSlash(f.Name)) }
	return verifyFiles(ctx, runtime.GOMAXPROCS(0), d.Manifest.Files, place, progress)
}

// VerifyMapped compares the dataset's mapped memory with the checksums of the manifest, on so many threads. Only the
// present contents are compared; what was read from the slices earlier may have been different. The error is a
// *CorruptError, even if a file has become shorter since it was mapped, so that using the slice would crash the
// program.
func (d *Dataset) VerifyMapped(ctx context.Context, threads int) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(threads)

	for i, info := range d.mapped {
		data := d.mappings[i].data
		for block := range info.Blocks {
			g.Go(func() error {
				// After the first damaged block the others need not be read.
				if err := inner.Err(); err != nil {
					return err
				}
				return verifyMemory(info, block, data)
			})
		}
	}

	return g.Wait()
}

// verifyMemory verifies one block of a mapping. Touching memory of a truncated file, or of one that the disk cannot
// read, is a fault, which usually ends the program; here it becomes a *CorruptError.
func verifyMemory(info FileInfo, block int, data []byte) (err error) {
	offset, length := info.Block(block)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // the inner call is now, and the outer one restores
	defer func() {
		if fault := recover(); fault != nil {
			err = &CorruptError{info.Name, offset, offset + length, fmt.Sprintf("it cannot be read any more: %v",
				fault)}
		}
	}()
	return info.VerifyBlock(block, data[offset:offset+length])
}

// verifyFiles compares all blocks of files with their checksums. path says where a file is. The other parameters are as
// for eachBlock.
func verifyFiles(ctx context.Context, threads int, files []FileInfo, path func(FileInfo) string,
	progress func(done, total int64)) error {
	all := func(int, int) bool { return true }
	return eachBlock(ctx, threads, blocksToRead{files, path, all}, progress, func(file, block int, data []byte) error {
		return files[file].VerifyBlock(block, data)
	})
}

// hashRest computes the checksums that are still missing from files ("") and sets them there. It skips blocks that have
// one.
func hashRest(ctx context.Context, threads int, files []FileInfo, path func(FileInfo) string,
	progress func(done, total int64)) error {
	unknown := func(file, block int) bool { return files[file].Blocks[block] == "" }
	return eachBlock(ctx, threads, blocksToRead{files, path, unknown}, progress,
		func(file, block int, data []byte) error {
			sum := sha256.Sum256(data)
			files[file].Blocks[block] = hex.EncodeToString(sum[:])
			return nil
		})
}

// blocksToRead is the blocks of files for which wanted, given the indices of a file and a block, is true. path says
// where a file is.
type blocksToRead struct {
	files  []FileInfo
	path   func(FileInfo) string
	wanted func(file, block int) bool
}

// eachBlock reads blocks of files and calls fn for each with its contents, up to threads at once. data is valid during
// the call. After an error, or when ctx ends, no further blocks are begun, and the first error is returned. progress,
// which may be nil, is told how many bytes of how many are done; blocks that are not wanted count as done. Like fn, it
// may be called by several goroutines at once.
func eachBlock(ctx context.Context, threads int, read blocksToRead, progress func(done, total int64),
	fn func(file, block int, data []byte) error) error {
	// Count what is done already.
	total := int64(0)
	done := atomic.Int64{}
	for i, f := range read.files {
		total += f.Bytes
		for block := range f.Blocks {
			if _, length := f.Block(block); !read.wanted(i, block) {
				done.Add(length)
			}
		}
	}

	if known := done.Load(); progress != nil && known > 0 {
		progress(known, total)
	}

	// As many buffers as threads, allocated on first use.
	buffers := make(chan []byte, threads)
	for range threads {
		buffers <- nil
	}

	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(threads)
	for i, info := range read.files {
		f, err := os.Open(read.path(info))
		if err != nil {
			// Blocks that are being read are waited for, since the deferred calls close their files.
			return errors.Join(badFile(info.Name, -1, "the file cannot be opened"), err, g.Wait())
		}
		defer f.Close()

		for block := range info.Blocks {
			if inner.Err() != nil {
				break
			}
			if !read.wanted(i, block) {
				continue
			}
			g.Go(func() error {
				buf := <-buffers
				if buf == nil {
					buf = make([]byte, BlockBytes)
				}
				defer func() { buffers <- buf }()

				offset, length := info.Block(block)
				n, err := io.ReadFull(io.NewSectionReader(f, offset, length), buf[:length])
				if err != nil {
					return &CorruptError{info.Name, offset, offset + length,
						fmt.Sprintf("only %d bytes can be read: %v", n, err)}
				}

				if err := fn(i, block, buf[:length]); err != nil {
					return err
				}
				if progress != nil {
					progress(done.Add(length), total)
				}
				return inner.Err()
			})
		}
	}

	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err() // the loop may have ended because of ctx, without an error of any block
}
