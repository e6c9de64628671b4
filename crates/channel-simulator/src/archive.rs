//! Archives as the channels send their statements in, without compression: readers are to see the frames, not small files.

/// Longest block of a gzip stream that is not compressed.
const BLOCK_BYTES_MAX: usize = 65_535;

/// A gzip stream of one file.
pub(crate) fn gzip(file: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks: Vec<&[u8]> =
        if file.is_empty() { vec![file] } else { file.chunks(BLOCK_BYTES_MAX).collect() };
    let last = blocks.len().saturating_sub(1);
    for (place, block) in blocks.iter().enumerate() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(u8::from(place == last));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend(crc32(file).to_le_bytes());
    out.extend(length(file).to_le_bytes());
    out
}

/// A ZIP archive of files with names of any bytes: no flag says what encoding they have.
pub(crate) fn zip(files: &[(&[u8], &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, file) in files {
        let at = length(&out);
        let mut common: Vec<u8> = Vec::new();
        // Version 2.0, no flags, stored, the first day that the format knows.
        for word in [20_u16, 0, 0, 0, 0x21] {
            common.extend(word.to_le_bytes());
        }
        for word in [crc32(file), length(file), length(file)] {
            common.extend(word.to_le_bytes());
        }
        common.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
        common.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend_from_slice(name);
        out.extend_from_slice(file);
        directory.extend(b"PK\x01\x02");
        directory.extend(20_u16.to_le_bytes());
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend_from_slice(name);
    }
    let (at, count) = (length(&out), u16::try_from(files.len()).unwrap_or(u16::MAX));
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(length(&directory).to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_sum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(gzip(b"a").len(), 10 + 5 + 1 + 8);
    }
}
