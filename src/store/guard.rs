//! What a folder and a file of idem must be before it trusts them (design §11): its own, written by nobody else, and local.

use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use nix::sys::statfs::statfs;
use nix::unistd::geteuid;

use crate::domain::store::StoreError;

/// Checks the folder. Errors: missing, no folder, another owner, writable by others, a network file system.
pub(in crate::store) fn check_folder(folder: &Path) -> Result<(), StoreError> {
    let metadata = match std::fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::FolderMissing(folder.to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(StoreError::FolderMissing(folder.to_owned()));
        }
        Err(error) => return Err(StoreError::from_io(folder, "looking at the folder", &error)),
    };
    if !metadata.is_dir() {
        return Err(StoreError::FolderMissing(folder.to_owned()));
    }
    check_rights(folder, &metadata)?;
    let kind =
        statfs(folder).map_err(|errno| StoreError::from_io(folder, "asking for the file system", &errno.into()))?;
    if let Some(name) = network_name(kind.filesystem_type().0) {
        return Err(StoreError::NetworkFileSystem(folder.to_owned(), name));
    }
    let free = kind.blocks_available().saturating_mul(u64::try_from(kind.block_size()).unwrap_or(0));
    if too_full_to_map(kind.block_size(), free) {
        return Err(StoreError::Full(folder.to_owned()));
    }
    Ok(())
}

/// Tells whether the shared memory beside the store could not be filled.
///
/// SQLite makes room for it by writing one byte in every 4 KiB. Where blocks are smaller the rest stays a hole, and on a
/// full disk the first access to it ends the process by SIGBUS, without a word. With blocks of 4 KiB or more an error
/// comes back, and a replay, which needs no room, still works.
fn too_full_to_map(block_size: i64, free: u64) -> bool {
    block_size < 4096 && free < 256 * 1024
}

/// Checks the store's file. `Ok(false)`: it isn't there.
pub(in crate::store) fn check_file(path: &Path) -> Result<bool, StoreError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(StoreError::from_io(path, "looking at the store", &error)),
    };
    if !metadata.is_file() {
        return Err(StoreError::NotAFile(path.to_owned()));
    }
    check_rights(path, &metadata)?;
    if metadata.nlink() > 1 {
        return Err(StoreError::OtherNames(path.to_owned()));
    }
    // A store appears under its name whole (see `create`), so an empty file is one that lost its content. Taking it
    // for a new one would forget every claim.
    if metadata.len() == 0 {
        return Err(StoreError::Empty(path.to_owned()));
    }
    Ok(true)
}

/// Tells whether a folder belongs to the user who runs idem.
fn is_own(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
}

/// Creates the folder of idem's own state, readable for its owner alone, with those above it that are missing.
pub(in crate::store) fn create_folder(folder: &Path) -> Result<(), StoreError> {
    let create = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    create.map_err(|error| StoreError::from_io(folder, "creating the folder", &error))?;
    // Their names must survive a power cut as well as the claim does. Which of them are new isn't known any more, and
    // this happens once in a store's life.
    for above in folder.ancestors().skip(1).take_while(|above| is_own(above)) {
        sync_folder(above)?;
    }
    Ok(())
}

/// Syncs the folder, so that the names of new files survive a power cut.
pub(in crate::store) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(|error| StoreError::from_io(folder, "syncing the folder", &error))
}

/// Checks that a file or folder belongs to the user who runs idem, and that nobody else can write it.
pub(in crate::store) fn check_rights(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
    if metadata.uid() != geteuid().as_raw() {
        return Err(StoreError::ForeignOwner(path.to_owned()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(StoreError::WritableByOthers(path.to_owned()));
    }
    Ok(())
}

/// Returns the name of a network file system by its magic number (`statfs(2)`), or `None` for a local one.
///
/// FUSE is counted in: it can't be told from here whether sshfs or a local disk is behind it.
pub(in crate::store) fn network_name(magic: i64) -> Option<&'static str> {
    // The kernel gives 32 bits, sign-extended on some machines.
    let name = match magic & 0xffff_ffff {
        0x6969 => "nfs",
        0x517b => "smb",
        0xfe53_4d42 => "smb2",
        0xff53_4d42 => "cifs",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x00c3_6400 => "ceph",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x564c => "ncp",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        0x7461_636f => "ocfs2",
        0x0116_1970 => "gfs2",
        0x1983_0326 => "fhgfs",
        0x786f_4256 => "vboxsf",
        0xbacb_acbc => "vmhgfs",
        _ => return None,
    };
    Some(name)
}

/// Returns the name of a local file system, or its number.
pub(in crate::store) fn local_name(magic: i64) -> String {
    let name = match magic & 0xffff_ffff {
        0xef53 => "ext2/ext3/ext4",
        0x0102_1994 => "tmpfs",
        0x9123_683e => "btrfs",
        0x5846_5342 => "xfs",
        0x794c_7630 => "overlayfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        other => return format!("file system {other:#x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_number() {
        for (magic, name) in [
            (0x6969, "nfs"),
            (0x517b, "smb"),
            (0xfe53_4d42, "smb2"),
            (0xff53_4d42, "cifs"),
            (-11_317_950, "cifs"), // the same 32 bits, sign-extended
            (0x0102_1997, "9p"),
            (0x6573_5546, "fuse"),
            (0x00c3_6400, "ceph"),
            (0x5346_414f, "afs"),
            (0x6b41_4653, "afs"),
            (0x7375_7245, "coda"),
            (0x564c, "ncp"),
            (0x0bd0_0bd0, "lustre"),
            (0x4750_4653, "gpfs"),
            (0x7461_636f, "ocfs2"),
            (0x0116_1970, "gfs2"),
            (0x1983_0326, "fhgfs"),
            (0x786f_4256, "vboxsf"),
            (0xbacb_acbc, "vmhgfs"),
        ] {
            assert_eq!(network_name(magic), Some(name), "{magic:#x}");
        }
        for (magic, name) in [
            (0xef53, "ext2/ext3/ext4"),
            (0x0102_1994, "tmpfs"),
            (0x9123_683e, "btrfs"),
            (-1_859_950_530, "btrfs"),
            (0x5846_5342, "xfs"),
            (0x794c_7630, "overlayfs"),
            (0x2fc1_2fc1, "zfs"),
            (0xf2f5_2010, "f2fs"),
            (7, "file system 0x7"),
        ] {
            assert_eq!((network_name(magic), local_name(magic).as_str()), (None, name), "{magic:#x}");
        }
    }

    #[test]
    fn small_blocks_on_a_full_disk_are_refused() {
        assert!(too_full_to_map(1024, 0));
        assert!(too_full_to_map(2048, 256 * 1024 - 1));
        assert!(!too_full_to_map(1024, 256 * 1024));
        assert!(!too_full_to_map(4096, 0));
    }

    #[test]
    fn rights_of_others_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("idem.db");
        assert!(!check_file(&path).expect("missing is no error"));
        std::fs::write(&path, "x").expect("write");
        for (mode, fine) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
            assert_eq!(check_file(&path).is_ok(), fine, "{mode:o}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
        std::fs::hard_link(&path, folder.path().join("other.db")).expect("a second name");
        assert!(matches!(check_file(&path), Err(StoreError::OtherNames(_))));
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("chmod");
        assert!(matches!(check_folder(folder.path()), Err(StoreError::WritableByOthers(_))));
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "x").expect("write");
        for missing in [folder.path().join("none"), file.join("below"), file] {
            assert!(matches!(check_folder(&missing), Err(StoreError::FolderMissing(_))), "{missing:?}");
        }
        // A missing store is made anew, and every claim of one that is only out of sight would run again.
        let out_of_sight = folder.path().join("x".repeat(300));
        assert!(matches!(check_folder(&out_of_sight), Err(StoreError::Other(..))));
        assert!(matches!(check_file(&out_of_sight), Err(StoreError::Other(..))));
        assert!(matches!(check_file(folder.path()), Err(StoreError::NotAFile(_))));
        std::fs::write(folder.path().join("empty"), "").expect("write");
        assert!(matches!(check_file(&folder.path().join("empty")), Err(StoreError::Empty(_))));
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("a/b");
        create_folder(&below).expect("creating works");
        for made in [&below, &folder.path().join("a")] {
            assert_eq!(std::fs::metadata(made).expect("there").mode() & 0o777, 0o700, "{made:?}");
        }
        assert!(sync_folder(&below).is_ok() && sync_folder(&folder.path().join("none")).is_err());
        assert!(is_own(&below) && !is_own(&folder.path().join("none")));
        let others = if geteuid().is_root() {
            nix::unistd::chown(&below, Some(65_534.into()), None).expect("root gives it away");
            below
        } else {
            "/".into()
        };
        assert!(!is_own(&others));
        assert!(matches!(check_folder(&others), Err(StoreError::ForeignOwner(_))));
    }
}
